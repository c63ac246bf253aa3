-- One row per run and reason why its client's times cannot be by the engine's iteration lines alone:
-- they say how long steps took, not whose they were.
-- What is tested holds for every right record, whatever the load: each token after an answer's first
-- is of a step of its own (drafts: no more tokens than the step scheduled beyond one for each other
-- request), a request is in the client for as long as the steps that generate for it, and the client's
-- load lasts from the first of its steps to the last. A client may be slower than its engine.
-- Tokens of the log beyond the client's may be of others (warm-up, failed requests, recompute): as
-- many of the longest steps are left out. A tenth is left to clocks and to steps that overlap a little;
-- where they overlap more, or lines are missing, nothing is told.
WITH steps AS (
  SELECT t.run_id, t.source_id, t.engine, t.incarnation, t.step_ix,
    CAST(t.logged_at_ns AS DOUBLE) AS logged_ns, CAST(t.elapsed_ns AS DOUBLE) AS elapsed_ns,
    t.generation_requests AS requests, t.generation_tokens AS tokens, t.covers_steps,
    sum(t.elapsed_ns) OVER life - 1.05 * CAST(t.logged_at_ns AS DOUBLE) AS ahead_ns
  FROM raw.engine_steps AS t
  WHERE NOT t.dummy AND t.run_id NOT IN (
      -- that no iteration is in the time of the load may be the client's clock
      SELECT c.run_id FROM int_engine_coverage AS c
      WHERE c.code <> 'COVER002' OR c.run_id NOT IN (
        SELECT r.run_id FROM int_log_reach AS r WHERE r.is_elsewhere AND NOT r.is_late_begin AND NOT r.is_early_end))
    AND t.run_id IN (SELECT run_id FROM int_client_engine)
  WINDOW life AS (PARTITION BY t.run_id, t.source_id, t.engine, t.incarnation ORDER BY t.step_ix ROWS UNBOUNDED PRECEDING)
), followed AS (
  -- steps in a row that took longer than the time between their lines overlap
  SELECT *, ahead_ns - min(ahead_ns) OVER (
    PARTITION BY run_id, source_id, engine, incarnation ORDER BY step_ix ROWS UNBOUNDED PRECEDING) AS overlap_ns
  FROM steps
), usable AS (
  SELECT run_id, sum(tokens) AS tokens, median(elapsed_ns) FILTER (requests > 0) AS step_ns
  FROM followed GROUP BY run_id
  HAVING max(covers_steps) = 1 AND count(elapsed_ns) = count(*) AND count(logged_ns) = count(*) AND count(step_ix) = count(*)
    AND count(requests) = count(*) AND count(tokens) = count(*) AND max(overlap_ns) <= 1.5e9
), load AS (
  SELECT q.run_id, any_value(u.step_ns) AS step_ns, count(*) AS requests,
    greatest(any_value(u.tokens) - 0.98 * sum(greatest(q.output_tokens - 1, 0)), 0) AS others,
    CASE WHEN count(q.e2e_ns) = count(*) AND count(q.output_tokens) = count(*)
      THEN 1.1 * sum(q.e2e_ns) + count(*) * (5e6 + 2 * any_value(u.step_ns)) END AS most_ns,
    sum(q.e2e_ns) AS sum_ns,
    CASE WHEN count(q.sent_ns) = count(*) AND count(q.ended_ns) = count(*) AND count(q.output_tokens) = count(*)
      THEN max(q.ended_ns) - min(q.sent_ns) END AS whole_ns
  FROM int_client_engine AS q
  JOIN usable AS u ON u.run_id = q.run_id
  GROUP BY q.run_id
), generating AS (
  SELECT s.*, l.others, greatest(CAST(s.tokens AS DOUBLE) - s.requests + 1, 1) AS slots,
    sum(s.requests) OVER (PARTITION BY s.run_id ORDER BY s.elapsed_ns DESC ROWS UNBOUNDED PRECEDING) AS places,
    sum(s.tokens) OVER (PARTITION BY s.run_id ORDER BY s.logged_ns ROWS UNBOUNDED PRECEDING) AS until_now,
    sum(s.tokens) OVER (PARTITION BY s.run_id ORDER BY s.logged_ns DESC ROWS UNBOUNDED PRECEDING) AS from_now
  FROM steps AS s
  JOIN load AS l ON l.run_id = s.run_id
  WHERE s.requests > 0
), worked AS (
  SELECT run_id,
    sum(elapsed_ns * least(requests, greatest(places - others, 0))) AS worked_ns,
    min(logged_ns) FILTER (until_now > others) AS from_ns, max(logged_ns) FILTER (from_now > others) AS to_ns
  FROM generating GROUP BY run_id
), islands AS (
  -- the time in which the client had requests in flight: each opens where those before it have ended
  SELECT run_id, sum(greatest(ended_ns - greatest(sent_ns, coalesce(before_ns, sent_ns)), 0)) AS flown_ns,
    count(*) FILTER (before_ns IS NULL OR before_ns < sent_ns) AS islands
  FROM (
    SELECT run_id, sent_ns, ended_ns,
      max(ended_ns) OVER (PARTITION BY run_id ORDER BY sent_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
    FROM int_client_engine
    WHERE run_id IN (SELECT run_id FROM load WHERE whole_ns IS NOT NULL)
  ) AS sent GROUP BY run_id
), busy AS (
  SELECT run_id, max(busy_ns) AS busy_ns
  FROM (
    SELECT run_id, sum(elapsed_ns) FILTER (place > others) AS busy_ns
    FROM (
      SELECT *, row_number() OVER (PARTITION BY run_id, source_id, engine ORDER BY elapsed_ns DESC) AS place
      FROM generating
    ) AS placed GROUP BY run_id, source_id, engine
  ) AS engines GROUP BY run_id
), shortest AS (
  SELECT run_id, sum(elapsed_ns) OVER least_first AS least_ns, sum(slots) OVER least_first AS tokens
  FROM generating
  WINDOW least_first AS (PARTITION BY run_id ORDER BY ratio(elapsed_ns, slots) ROWS UNBOUNDED PRECEDING)
), answers AS (
  -- two steps are left to a client that stops its clock at the last token that has content
  SELECT q.run_id, count(*) AS requests,
    count(*) FILTER (s.least_ns > 1.1 * q.e2e_ns + 5e6) AS shorter,
    median(s.least_ns) FILTER (s.least_ns > 1.1 * q.e2e_ns + 5e6) AS least_ns,
    median(q.e2e_ns) FILTER (s.least_ns > 1.1 * q.e2e_ns + 5e6) AS e2e_ns
  FROM (SELECT run_id, e2e_ns, CAST(output_tokens AS DOUBLE) - 3 AS needed FROM int_client_engine
    WHERE e2e_ns IS NOT NULL AND run_id IN (SELECT run_id FROM load)) AS q
  ASOF JOIN shortest AS s ON s.run_id = q.run_id AND q.needed >= s.tokens
  GROUP BY q.run_id
)
SELECT a.run_id, 'TIME005' AS code, a.shorter AS occurrences,
  concat('the shortest steps that the engine took make the answers of ', a.shorter, ' of ', l.requests,
    ' requests longer than the client says: at the median at least ', printf('%.6g', a.least_ns / 1e6), ' ms against ',
    printf('%.6g', a.e2e_ns / 1e6), ' ms') AS text
FROM answers AS a
JOIN load AS l ON l.run_id = a.run_id
WHERE a.shorter >= 3 AND a.shorter * 20 > l.requests
UNION ALL BY NAME
SELECT w.run_id, 'TIME005' AS code, 1 AS occurrences,
  concat('the engine generated for the load''s requests for at least ', printf('%.6g', w.worked_ns / 1e9),
    ' s in all, and the client''s end-to-end times add up to ', printf('%.6g', l.sum_ns / 1e9), ' s') AS text
FROM worked AS w
JOIN load AS l ON l.run_id = w.run_id
WHERE w.worked_ns > l.most_ns
UNION ALL BY NAME
SELECT b.run_id, 'TIME005' AS code, 1 AS occurrences,
  concat('the engine''s steps for the load took at least ', printf('%.6g', b.busy_ns / 1e9),
    ' s, and by the client''s times it had requests in flight for ', printf('%.6g', i.flown_ns / 1e9), ' s') AS text
FROM busy AS b
JOIN islands AS i ON i.run_id = b.run_id
JOIN load AS l ON l.run_id = b.run_id
WHERE b.busy_ns > 1.1 * i.flown_ns + i.islands * (5e6 + 2 * l.step_ns) + 1e9
UNION ALL BY NAME
SELECT w.run_id, 'TIME005' AS code, 1 AS occurrences,
  concat('the engine generated for the load over at least ', printf('%.6g', (w.to_ns - w.from_ns) / 1e9),
    ' s, and by the client''s times the load lasted ', printf('%.6g', l.whole_ns / 1e9), ' s') AS text
FROM worked AS w
JOIN load AS l ON l.run_id = w.run_id
WHERE w.to_ns - w.from_ns > 1.02 * l.whole_ns + 3e9
