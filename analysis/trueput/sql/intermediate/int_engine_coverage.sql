-- One row per run and reason why its engine's record does not cover the load: figures that are summed
-- over iterations (step time, scheduled tokens, recompute) are then those of a part of it.
-- What is tested holds for every whole record: iterations are numbered without holes, the first is
-- logged before the first token that a client received and the last not before its last answer (but
-- for the log's one-second resolution), and each token after an answer's first was scheduled as a
-- generation token (drafts and recompute only add to them; a preempted request may get one token of a
-- resumed prefill; a request for several answers has a first token of each, and where nothing says how
-- many it asked for, each scheduled prefill may have given one). 2 % are left to counts of other
-- tokenisers, none to those that the engine's spans count, and one iteration in 1,000 to torn lines.
-- is_log: the log itself holds a part; else other files of the engine do.
-- Computed once. Few rows, which the ledger, its rungs and their problems read.
WITH load AS (
  SELECT run_id, min(sent_ns) AS from_ns, max(ended_ns) AS to_ns,
    min(sent_ns + coalesce(ttft_ns, e2e_ns)) AS first_ns,
    sum(greatest(output_tokens - coalesce(sequences, 1), 0)) AS tokens, count(*) AS requests,
    count(*) FILTER (sequences IS NULL) AS untold,
    count(sent_ns) = count(*) AND count(ended_ns) = count(*) AS is_timed
  FROM int_client_engine GROUP BY run_id
), spans AS (
  -- the load's requests for one answer, whose tokens the engine itself counted
  SELECT q.run_id, sum(e.output_tokens - 1) AS tokens, count(*) AS requests
  FROM int_ruled AS q
  JOIN int_engine_requests AS e ON e.run_id = q.run_id AND e.request_id = q.request_id
  WHERE q.is_load AND q.ruling = 'complete' AND e.has_span AND e.engine_request_id IS NOT NULL
    AND e.sequences IS NULL AND e.output_tokens > 0
  GROUP BY q.run_id
), numbered AS (
  SELECT t.run_id, t.logged_at_ns, t.dummy, t.generation_tokens, t.context_requests,
    t.step_ix - lag(t.step_ix) OVER life AS ahead,
    greatest(t.covers_steps, lag(t.covers_steps) OVER life, 1) AS covers,
    lag(t.logged_at_ns) OVER life AS before_ns,
    l.from_ns - r.slack_ns AS from_ns, l.to_ns + r.slack_ns AS to_ns
  FROM raw.engine_steps AS t
  LEFT JOIN load AS l ON l.run_id = t.run_id
  LEFT JOIN int_log_slack AS r ON r.run_id = t.run_id
  WINDOW life AS (PARTITION BY t.run_id, t.source_id, t.engine, t.incarnation ORDER BY t.step_ix)
), logged AS (
  SELECT run_id, count(*) AS iterations,
    sum(ahead - covers) FILTER (ahead > covers
      AND coalesce(logged_at_ns >= from_ns, true) AND coalesce(before_ns <= to_ns, true)) AS missing,
    min(logged_at_ns) AS first_ns, max(logged_at_ns) AS last_ns,
    -- of iterations without a count or an instant nothing is told
    CASE WHEN count(*) FILTER (generation_tokens IS NULL AND NOT dummy) = 0
      THEN sum(generation_tokens) FILTER (NOT dummy AND coalesce(logged_at_ns BETWEEN from_ns AND to_ns, true)) END AS tokens,
    sum(context_requests) FILTER (NOT dummy AND coalesce(logged_at_ns BETWEEN from_ns AND to_ns, true)) AS prefills
  FROM numbered GROUP BY run_id
), series AS (
  -- what each engine's own counter grew by while the load lasted
  SELECT e.run_id, min(e.at_ns) AS from_ns, max(e.at_ns) AS to_ns,
    greatest(arg_max(e.value, e.at_ns) - arg_min(e.value, e.at_ns), 0) AS growth
  FROM raw.engine_samples AS e
  JOIN load AS l ON l.run_id = e.run_id AND e.at_ns BETWEEN l.from_ns AND l.to_ns
  WHERE e.metric = 'vllm:generation_tokens_total' AND e.kind = 'counter'
  GROUP BY e.run_id, e.source_id, e.engine, e.incarnation, e.labels
), grown AS (
  SELECT run_id, min(from_ns) AS from_ns, max(to_ns) AS to_ns, sum(growth) AS growth FROM series GROUP BY run_id
), counted AS (
  -- a request's first token comes of its prefill
  SELECT g.run_id, g.growth,
    coalesce(sum(n.generation_tokens + n.context_requests) FILTER (NOT n.dummy), 0) AS tokens,
    count(*) FILTER (n.logged_at_ns IS NULL OR n.generation_tokens IS NULL OR n.context_requests IS NULL) AS untold
  FROM grown AS g
  JOIN int_log_slack AS r ON r.run_id = g.run_id
  JOIN numbered AS n ON n.run_id = g.run_id
    AND coalesce(n.logged_at_ns BETWEEN g.from_ns - r.slack_ns AND g.to_ns + r.slack_ns, true)
  GROUP BY g.run_id, g.growth
)
SELECT run_id, 'COVER001' AS code, CAST(missing AS BIGINT) AS occurrences, true AS is_log,
  concat(missing, ' of ', iterations + missing, ' iterations of the engine are not in its log') AS text
FROM logged WHERE missing * 1000 > iterations
UNION ALL BY NAME
SELECT run_id, 'COVER002' AS code, 1 AS occurrences, true AS is_log,
  CASE WHEN ends_long_before
    THEN concat('the engine''s log ends ', printf('%.3g', (served_last_ns - last_ns) / 1e9), ' s before the last answer that its ',
      CASE WHEN has_client THEN 'client received' ELSE 'spans tell of' END)
    ELSE concat('the engine''s log ends at iteration ', last_ix, ', and its counter had counted ', CAST(ran AS BIGINT),
      ' iterations when the load ended') END AS text
FROM int_log_reach WHERE is_early_end
UNION ALL BY NAME
SELECT run_id, 'COVER002' AS code, 1 AS occurrences, true AS is_log,
  CASE WHEN begins_long_after OR begins_after
    THEN concat('the engine''s log begins ', CASE WHEN NOT begins_long_after THEN concat('at iteration ', first_ix, ', ') END,
      printf('%.3g', (first_ns - served_first_ns) / 1e9), ' s after the first token that its ',
      CASE WHEN has_client THEN 'client received' ELSE 'spans tell of' END)
    ELSE concat('the engine''s log begins at iteration ', first_ix, ', and its counter had counted none when the load began') END AS text
FROM int_log_reach WHERE is_late_begin
UNION ALL BY NAME
SELECT run_id, 'COVER002' AS code, 1 AS occurrences, true AS is_log,
  concat('no iteration of the engine''s log lies in the time of the load: it ',
    CASE WHEN first_ns > served_last_ns THEN concat('begins ', printf('%.3g', (first_ns - served_last_ns) / 1e9), ' s after the last answer')
      ELSE concat('ends ', printf('%.3g', (served_from_ns - last_ns) / 1e9), ' s before the first request') END,
    ', as far as its clock is known') AS text
FROM int_log_reach WHERE is_elsewhere AND NOT is_late_begin AND NOT is_early_end
UNION ALL BY NAME
SELECT g.run_id, 'COVER003' AS code, 1 AS occurrences, true AS is_log,
  concat('the engine''s log schedules ', CAST(g.tokens AS BIGINT), ' generation tokens, and its client received ',
    CAST(l.tokens AS BIGINT), ' after the first ones') AS text
FROM logged AS g
JOIN load AS l ON l.run_id = g.run_id
LEFT JOIN int_preemptions AS x ON x.run_id = g.run_id
WHERE g.tokens + coalesce(x.all_preemptions, 0)
  + CASE WHEN l.untold > 0 THEN greatest(coalesce(g.prefills, 0) - l.requests, 0) ELSE 0 END < 0.98 * l.tokens
UNION ALL BY NAME
SELECT g.run_id, 'COVER003' AS code, 1 AS occurrences, true AS is_log,
  concat('the engine''s log schedules ', CAST(g.tokens AS BIGINT), ' generation tokens, and its spans tell of ',
    CAST(l.tokens AS BIGINT), ' after the first ones') AS text
FROM logged AS g
JOIN spans AS l ON l.run_id = g.run_id
LEFT JOIN int_preemptions AS x ON x.run_id = g.run_id
WHERE coalesce(g.missing, 0) = 0
  AND (l.tokens - g.tokens - coalesce(x.all_preemptions, greatest(coalesce(g.prefills, 0) - l.requests, 0))) * 1000 > l.tokens
UNION ALL BY NAME
SELECT run_id, 'COVER003' AS code, 1 AS occurrences, true AS is_log,
  concat('the engine''s log schedules ', CAST(tokens AS BIGINT), ' tokens that may be new, and its counter grew by ',
    CAST(growth AS BIGINT), ' in that time') AS text
FROM counted WHERE untold = 0 AND tokens < 0.98 * growth
UNION ALL BY NAME
SELECT p.run_id, 'COVER004' AS code, count(*) AS occurrences, bool_or(s.format = 'vllm_log') AS is_log,
  concat('the engine''s record is damaged: ', p.source_id, ' (', min(p.code), ')') AS text
FROM raw.problems AS p
JOIN raw.sources AS s ON s.run_id = p.run_id AND s.source_id = p.source_id
WHERE p.severity = 'error' AND s.format IN ('vllm_log', 'prometheus_text')
GROUP BY p.run_id, p.source_id
