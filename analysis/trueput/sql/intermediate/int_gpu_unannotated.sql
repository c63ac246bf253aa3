-- One row per run and process with a profile that has fewer step annotations than the engine's log has
-- iterations, while it watched.
-- Formula: between the first and the last iteration that both show, the log's less the annotated. Before and
-- behind, those that are no longer, together, than the time in which operations are there, and are printed then.
-- What such steps launched, if the file shows it, was launched outside every step that is annotated.
-- Where not one of the annotated steps is found in the log although it prints iterations at the time, nothing
-- says whether all are annotated: those count that surely ran while it watched, else missing is NULL.
-- Why iterations that compute: others launch nothing and are not annotated.
WITH stepped AS (
  SELECT run_id, source_id, process_key, engine, incarnation, step_ix, gpu_step_ix, start_at_ns, end_at_ns
  FROM raw.gpu_steps
), reach AS (
  SELECT run_id, source_id, process_key, engine, incarnation, min(step_ix) AS from_ix, max(step_ix) AS to_ix,
    min(gpu_step_ix) AS first_step, max(gpu_step_ix) AS last_step
  FROM stepped WHERE step_ix IS NOT NULL
  GROUP BY run_id, source_id, process_key, engine, incarnation
), shown AS (
  SELECT r.run_id, r.source_id, r.process_key, r.engine, r.incarnation, count(*) AS steps
  FROM reach AS r
  JOIN stepped AS s ON s.run_id = r.run_id AND s.source_id = r.source_id
    AND s.process_key IS NOT DISTINCT FROM r.process_key AND s.gpu_step_ix BETWEEN r.first_step AND r.last_step
  GROUP BY ALL
), computing AS (
  SELECT run_id, engine, incarnation, step_ix, logged_at_ns, coalesce(elapsed_ns, 0) AS elapsed_ns
  FROM raw.engine_steps
  WHERE NOT dummy AND coalesce(context_tokens, 0) + coalesce(generation_tokens, 0) > 0
    AND run_id IN (SELECT s.run_id FROM stepped AS s)
), alone AS (
  -- where an engine is not the only one, nobody knows whose profile it is
  SELECT run_id FROM computing GROUP BY run_id HAVING count(DISTINCT engine) = 1
), timed AS (
  SELECT *, sum(elapsed_ns) OVER (PARTITION BY run_id, engine, incarnation ORDER BY step_ix) AS passed_ns FROM computing
), printed AS (
  SELECT r.run_id, r.source_id, r.process_key, r.engine, r.incarnation, r.from_ix, r.to_ix,
    count(*) FILTER (t.step_ix BETWEEN r.from_ix AND r.to_ix) AS iterations,
    -- how long iterations had taken when the first began, and when the last did
    max(t.passed_ns - t.elapsed_ns) FILTER (t.step_ix = r.from_ix) AS until_first_ns,
    max(t.passed_ns - t.elapsed_ns) FILTER (t.step_ix = r.to_ix) AS until_last_ns
  FROM reach AS r
  JOIN timed AS t ON t.run_id = r.run_id AND t.engine = r.engine AND t.incarnation = r.incarnation
  GROUP BY ALL
), watched AS (
  -- of each process: from when to when its operations were, and when its first and last annotation began
  SELECT o.run_id, o.source_id, o.process_key, o.first_ns, o.last_ns, s.first_ns AS first_step_ns, s.last_ns AS last_step_ns
  FROM (
    SELECT run_id, source_id, process_key, min(first_at_ns) AS first_ns, max(last_at_ns) AS last_ns
    FROM int_gpu_op_totals GROUP BY run_id, source_id, process_key
  ) AS o
  JOIN (
    SELECT run_id, source_id, process_key, min(start_at_ns) AS first_ns, max(start_at_ns) AS last_ns
    FROM stepped GROUP BY run_id, source_id, process_key
  ) AS s ON s.run_id = o.run_id AND s.source_id = o.source_id AND s.process_key IS NOT DISTINCT FROM o.process_key
), beside AS (
  -- a second and a half: what a log prints, and how far clocks may be apart
  SELECT p.run_id, p.source_id, p.process_key, p.engine, p.incarnation, count(*) AS iterations
  FROM printed AS p
  JOIN watched AS w ON w.run_id = p.run_id AND w.source_id = p.source_id AND w.process_key IS NOT DISTINCT FROM p.process_key
  JOIN timed AS t ON t.run_id = p.run_id AND t.engine = p.engine AND t.incarnation = p.incarnation
  WHERE (t.step_ix < p.from_ix AND p.until_first_ns - (t.passed_ns - t.elapsed_ns) <= w.first_step_ns - w.first_ns
      AND coalesce(t.logged_at_ns + 1500000000 >= w.first_ns, true))
    OR (t.step_ix > p.to_ix AND t.passed_ns - p.until_last_ns <= w.last_ns - w.last_step_ns
      AND coalesce(t.logged_at_ns - 500000000 <= w.last_ns, true))
  GROUP BY ALL
)
SELECT p.run_id, p.source_id, p.process_key, CAST(sum(p.iterations + coalesce(b.iterations, 0)) AS BIGINT) AS iterations,
  CAST(sum(greatest(p.iterations - s.steps, 0) + coalesce(b.iterations, 0)) AS BIGINT) AS missing
FROM printed AS p
JOIN shown AS s ON s.run_id = p.run_id AND s.source_id = p.source_id AND s.process_key IS NOT DISTINCT FROM p.process_key
  AND s.engine = p.engine AND s.incarnation = p.incarnation
LEFT JOIN beside AS b ON b.run_id = p.run_id AND b.source_id = p.source_id AND b.process_key IS NOT DISTINCT FROM p.process_key
  AND b.engine = p.engine AND b.incarnation = p.incarnation
GROUP BY p.run_id, p.source_id, p.process_key
HAVING sum(greatest(p.iterations - s.steps, 0) + coalesce(b.iterations, 0)) > 0
UNION ALL
SELECT u.run_id, u.source_id, u.process_key, CAST(u.surely AS BIGINT) AS iterations,
  CASE WHEN u.surely > u.steps THEN CAST(u.surely - u.steps AS BIGINT) END AS missing
FROM (
  SELECT s.run_id, s.source_id, s.process_key, s.steps,
    count(*) FILTER (t.logged_at_ns >= w.first_ns AND t.logged_at_ns + 1000000000 <= w.last_ns
      AND s.run_id IN (SELECT a.run_id FROM alone AS a)) AS surely
  FROM (
    SELECT run_id, source_id, process_key, count(*) AS steps
    FROM stepped GROUP BY run_id, source_id, process_key HAVING count(step_ix) = 0
  ) AS s
  JOIN watched AS w ON w.run_id = s.run_id AND w.source_id = s.source_id AND w.process_key IS NOT DISTINCT FROM s.process_key
  JOIN computing AS t ON t.run_id = s.run_id
    AND coalesce(t.logged_at_ns + 1500000000 >= w.first_ns AND t.logged_at_ns - 500000000 <= w.last_ns, true)
  GROUP BY s.run_id, s.source_id, s.process_key, s.steps
) AS u
