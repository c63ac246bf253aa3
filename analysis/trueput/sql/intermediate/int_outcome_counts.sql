-- One row per run and load session: how its planned requests ended, inside the run's window.
-- Attainment counts a request by its send (one that was never sent by its planned instant), goodput by
-- its end. In a window that cuts the load what has no instant is not counted, nor what a log's second
-- leaves open in a window shorter than that; unplaced is how many sent
-- requests that leaves out, unplaced_ends how many may have ended in it. not_sent_unplaced were planned
-- and never sent, nobody knows when: they are of the whole load alone.
-- answered and complete count what is shown; *_open counts requests of which no file tells it. Where
-- servers say how many responses began, at least so many of the whole load were answered as are left
-- when everything else has had one that may have.
WITH counted AS (
  SELECT
    o.run_id, o.session,
    count(*) AS of_load,
    count(*) FILTER (sent_in) AS planned,
    count(*) FILTER (sent_in AND outcome IS DISTINCT FROM 'not_sent') AS sent,
    count(*) FILTER (sent_in AND answered) AS answered,
    count(*) FILTER (sent_in AND answered IS NULL OR sent_open AND answered IS DISTINCT FROM false) AS answered_open,
    count(*) FILTER (sent_in AND (outcome = 'rejected' OR failure_kind = 'http_error')) AS refused,
    count(*) FILTER (sent_in AND outcome IS DISTINCT FROM 'not_sent' AND NOT answered) AS unanswered,
    bool_and(window_rule = 'all') AS is_whole,
    count(*) FILTER (sent_in AND complete) AS complete,
    count(*) FILTER (sent_in AND complete IS NULL OR sent_open AND complete IS DISTINCT FROM false) AS complete_open,
    count(*) FILTER (sent_in AND outcome = 'good') AS good,
    count(*) FILTER (sent_in AND outcome = 'late') AS late,
    count(*) FILTER (sent_in AND outcome = 'rejected') AS rejected,
    count(*) FILTER (sent_in AND outcome = 'failed') AS failed,
    count(*) FILTER (sent_in AND outcome = 'aborted') AS aborted,
    count(*) FILTER (sent_in AND outcome = 'unfinished') AS unfinished,
    count(*) FILTER (sent_in AND outcome = 'not_sent') AS not_sent,
    count(*) FILTER (sent_in AND outcome = 'unknown') AS unknown,
    -- nothing of these where the window is the whole load: they are not counted then
    CASE WHEN window_is_all() THEN 0 ELSE count(*) FILTER (sent_open) END AS unplaced,
    CASE WHEN window_is_all() THEN 0 ELSE count(*) FILTER (sent_open AND outcome IN ('good', 'unknown')) END AS unplaced_good,
    CASE WHEN window_is_all() THEN 0 ELSE count(*) FILTER (outcome = 'not_sent' AND is_without_instant) END AS not_sent_unplaced,
    count(*) FILTER (sent_in AND slo_not_applicable) AS slo_not_applicable,
    -- requests of which a server's or engine's record says the same or more than the client claims
    count(*) FILTER (sent_in AND (server_status IS NOT NULL OR engine_status IS NOT NULL)) AS checked,
    count(*) FILTER (ended_in AND outcome = 'good') AS good_ends,
    count(*) FILTER (ended_in AND outcome = 'unknown' OR ended_open AND outcome IN ('good', 'unknown')) AS unknown_ends,
    count(*) FILTER (ended_in AND complete) AS complete_ends,
    CASE WHEN window_is_all() THEN 0 ELSE count(*) FILTER (ended_open AND complete IS DISTINCT FROM false) END AS unplaced_ends,
    CASE WHEN window_is_all() THEN 0 ELSE count(*) FILTER (ended_open AND output_tokens > 0) END AS unplaced_tokens,
    CAST(sum(output_tokens) FILTER (ended_in AND outcome IS DISTINCT FROM 'not_sent') AS BIGINT) AS output_tokens,
    CAST(sum(output_tokens) FILTER (ended_in AND outcome = 'good') AS BIGINT) AS good_output_tokens,
    CAST(sum(output_tokens) FILTER (
      ended_in AND outcome IN ('late', 'failed', 'aborted', 'rejected', 'unfinished')) AS BIGINT) AS wasted_output_tokens
  FROM (
    SELECT q.*, w.window_rule,
      NOT window_is_all() AND w.window_rule <> 'all' AND q.client_status IS NULL AND q.server_status IS NULL
        AND is_undecided(q.sent_at_ns, w.from_ns, w.until_ns) AS sent_undecided,
      NOT window_is_all() AND w.window_rule <> 'all' AND q.client_status IS NULL AND q.server_status IS NULL
        AND is_undecided(q.ended_at_ns, w.from_ns, w.until_ns) AS ended_undecided,
      window_is_all() OR is_inside(w.window_rule, coalesce(q.sent_at_ns, q.placed_at_ns), w.from_ns, w.until_ns)
        AND NOT sent_undecided AS sent_in,
      window_is_all() OR is_inside(w.window_rule, q.ended_at_ns, w.from_ns, w.until_ns) AND NOT ended_undecided AS ended_in,
      NOT window_is_all() AND w.window_rule <> 'all' AND q.sent_at_ns IS NULL AND q.placed_at_ns IS NULL AS is_without_instant,
      NOT window_is_all() AND w.window_rule <> 'all' AND q.sent_at_ns IS NULL AND q.placed_at_ns IS NULL
        AND q.outcome IS DISTINCT FROM 'not_sent' OR sent_undecided AS sent_open,
      -- an end is not before its send
      NOT window_is_all() AND w.window_rule <> 'all' AND (q.ended_at_ns IS NULL OR ended_undecided)
        AND coalesce(coalesce(q.sent_at_ns, q.placed_at_ns) <= w.until_ns, true)
        AND q.outcome IS DISTINCT FROM 'not_sent' AS ended_open,
      CASE
        WHEN q.outcome = 'not_sent' THEN false
        WHEN q.complete OR q.outcome = 'rejected' OR q.output_tokens > 0 OR q.ttft_ns IS NOT NULL
          OR q.http_status IS NOT NULL
          OR (q.outcome = 'failed' AND q.failure_kind IN ('http_error', 'stream_error', 'empty', 'short_output')) THEN true
        WHEN q.failure_kind IN ('timeout', 'engine_lost') THEN false
        -- who left, or is of unknown end, may have had the head of a response
      END AS answered
    FROM int_outcomes AS q
    LEFT JOIN int_windows AS w ON w.run_id = q.run_id AND w.session IS NOT DISTINCT FROM q.session
    WHERE q.outcome IS DISTINCT FROM 'other_traffic'
  ) AS o
  GROUP BY o.run_id, o.session
), told AS (
  SELECT c.*,
    CASE WHEN c.is_whole AND c.session IS NULL AND r.run_id IS NOT NULL
      THEN not_negative(least(c.answered_open, c.refused + r.responses - r.others - c.unanswered - c.answered)) END AS answered_by_number
  FROM counted AS c
  LEFT JOIN int_responses AS r ON r.run_id = c.run_id
)
SELECT * EXCLUDE (refused, unanswered, is_whole, answered_by_number, unplaced_good)
  REPLACE (answered + coalesce(answered_by_number, 0) AS answered,
    answered_open - coalesce(answered_by_number, 0) AS answered_open),
  unknown + unplaced_good AS good_open
FROM told
