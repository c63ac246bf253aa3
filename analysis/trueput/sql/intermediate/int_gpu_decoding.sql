-- One row per GPU step that decoded for requests that no replay names, and outcome: the share of its
-- decoding that went to the outcome, with low and high.
-- Why: tokens over a whole run say little of one step. A token in a small batch costs many times one in
-- a full one, and an aborted request may have decoded tokens that nobody received.
-- Formula: requests between their first token and their end at the step's start, by outcome; each counts
-- with the tokens that it had for each step of that time, since some of them waited to be computed again.
-- They are all that can have decoded: of the sequences that the engine
-- printed for the iteration an outcome has at most its requests in flight, and at least what those of the
-- others leave. Both ends of a request are known to slack_ns only: 50 ms, two steps, and what the requests'
-- clock leaves open; where none is within them for sure, who may be shares by the tokens of the run.
-- Sequences beyond all requests in flight are unknown's: they may be of any outcome, since a request may
-- have asked for several answers.
-- Null rule: no row for a step at whose time no request was in flight, nor where the profile's clock
-- does not reach the requests.
-- Computed once. Few rows, from a long chain of views that is slow to plan when it is read again.
WITH untold AS (
  SELECT s.run_id, s.gpu_step_ix, s.start_at_ns,
    -- of requests that compute again some do not decode, and nobody says how many
    CASE WHEN s.recomputed_tokens = 0 THEN t.generation_requests END AS sequences
  FROM raw.gpu_steps AS s
  JOIN int_gpu_windows AS w ON w.run_id = s.run_id AND w.is_placed
  LEFT JOIN int_steps AS t
    ON t.run_id = s.run_id AND t.engine = s.engine AND t.incarnation = s.incarnation AND t.step_ix = s.step_ix
  ANTI JOIN (SELECT * FROM int_step_shares WHERE work = 'decode') AS m
    ON m.run_id = s.run_id AND m.engine = s.engine AND m.incarnation = s.incarnation AND m.step_ix = s.step_ix
  WHERE s.decode_ratio_high > 0
), slacks AS (
  SELECT u.run_id, CAST(50000000 + 2 * coalesce(median(u.step_ns), 0) + any_value(coalesce(c.uncertainty_ns, 0)) AS BIGINT) AS slack_ns
  FROM (
    SELECT run_id, lead(start_at_ns) OVER (PARTITION BY run_id ORDER BY start_at_ns) - start_at_ns AS step_ns FROM untold
  ) AS u
  LEFT JOIN (
    SELECT r.run_id, max(s.clock_uncertainty_ns) AS uncertainty_ns
    FROM (SELECT DISTINCT run_id, source_id FROM raw.requests) AS r
    JOIN raw.sources AS s ON s.run_id = r.run_id AND s.source_id = r.source_id
    GROUP BY r.run_id
  ) AS c ON c.run_id = u.run_id
  GROUP BY u.run_id
), numbered AS (
  SELECT run_id, start_at_ns, row_number() OVER (PARTITION BY run_id ORDER BY start_at_ns) AS place FROM untold
), flown AS (
  -- what is not known of a request leaves open that it was there
  SELECT o.run_id, coalesce(o.outcome, 'unknown') AS outcome,
    o.sent_at_ns + o.ttft_ns AS from_ns, o.ended_at_ns AS to_ns,
    coalesce(o.sent_at_ns + coalesce(o.ttft_ns, 0) - s.slack_ns, -9000000000000000000) AS earliest_ns,
    coalesce(o.ended_at_ns + s.slack_ns, 9000000000000000000) AS latest_ns,
    greatest(coalesce(o.output_tokens, 0) - 1, 0) AS tokens, o.output_tokens IS NOT NULL AS is_counted
  FROM int_outcomes AS o
  JOIN slacks AS s ON s.run_id = o.run_id
  WHERE (o.outcome IS NULL OR o.outcome NOT IN ('rejected', 'not_sent'))
    -- nor did other traffic decode that was refused, of which there is an access line alone
    AND NOT (o.request_id IS NULL AND coalesce(refusal_status(o.http_status), false))
), flights AS (
  SELECT f.*, CASE WHEN f.is_counted THEN least(1, coalesce(ratio(f.tokens, b.place - coalesce(a.place, 0)), 1)) ELSE 1 END AS weight
  FROM flown AS f
  ASOF LEFT JOIN numbered AS a ON a.run_id = f.run_id AND f.from_ns >= a.start_at_ns
  ASOF LEFT JOIN numbered AS b ON b.run_id = f.run_id AND f.to_ns >= b.start_at_ns
), counts AS (
  SELECT run_id, outcome, at_ns, sum(surely) OVER so_far AS surely, sum(maybe) OVER so_far AS maybe
  FROM (
    SELECT run_id, outcome, at_ns, fsum(surely) AS surely, CAST(sum(maybe) AS BIGINT) AS maybe
    FROM (
      SELECT run_id, outcome, from_ns AS at_ns, weight AS surely, 0 AS maybe FROM flights WHERE to_ns > from_ns
      UNION ALL
      SELECT run_id, outcome, to_ns, -weight, 0 FROM flights WHERE to_ns > from_ns
      UNION ALL
      SELECT run_id, outcome, earliest_ns, 0, 1 FROM flights
      UNION ALL
      SELECT run_id, outcome, latest_ns, 0, -1 FROM flights
    ) GROUP BY run_id, outcome, at_ns
  )
  WINDOW so_far AS (PARTITION BY run_id, outcome ORDER BY at_ns ROWS UNBOUNDED PRECEDING)
), present AS (
  SELECT u.run_id, u.gpu_step_ix, u.sequences, o.outcome, CAST(o.tokens AS DOUBLE) AS tokens,
    CASE WHEN n.surely > 1e-6 THEN n.surely ELSE 0 END AS surely, CAST(n.maybe AS DOUBLE) AS maybe
  FROM untold AS u
  JOIN (SELECT run_id, outcome, sum(tokens) AS tokens FROM flights GROUP BY run_id, outcome) AS o ON o.run_id = u.run_id
  ASOF JOIN counts AS n ON n.run_id = u.run_id AND n.outcome = o.outcome AND u.start_at_ns >= n.at_ns
  WHERE n.maybe > 0
), weighed AS (
  SELECT *,
    CASE WHEN sum(surely) OVER step > 0 THEN surely WHEN sum(tokens) OVER step > 0 THEN tokens ELSE maybe END AS weight,
    sum(maybe) OVER step AS all_maybe,
    greatest(coalesce(sequences, 0), 1) AS needed
  FROM present
  WINDOW step AS (PARTITION BY run_id, gpu_step_ix)
), shared AS (
  SELECT run_id, gpu_step_ix, outcome,
    ratio(weight, sum(weight) OVER step) * least(1, ratio(all_maybe, needed)) AS share,
    ratio(greatest(0, needed - (all_maybe - maybe)), needed) AS least_share,
    CASE WHEN all_maybe < needed THEN 1 ELSE least(1, ratio(maybe, needed)) END AS most_share,
    sequences
  FROM weighed
  WINDOW step AS (PARTITION BY run_id, gpu_step_ix)
)
SELECT run_id, gpu_step_ix, outcome, share,
  CASE WHEN sequences IS NULL AND least_share < 1 THEN 0 ELSE least(share, least_share) END AS share_low,
  CASE WHEN sequences IS NULL THEN 1 ELSE greatest(share, most_share) END AS share_high
FROM shared
UNION ALL
SELECT run_id, gpu_step_ix, 'unknown', 1 - any_value(ratio(all_maybe, needed)),
  CASE WHEN bool_and(outcome = 'unknown') THEN 1 - any_value(ratio(all_maybe, needed)) ELSE 0 END,
  1 - any_value(ratio(all_maybe, needed))
FROM weighed
GROUP BY run_id, gpu_step_ix
HAVING any_value(ratio(all_maybe, needed)) < 1
