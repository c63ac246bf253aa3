-- One row per run and process with a profile that has fewer step annotations than the engine's log has
-- iterations, between the first and the last that both show: a few more may be chance, three are told.
-- What such steps launched, if the file shows it, was launched outside every step that is annotated.
-- Why iterations that compute: others launch nothing and are not annotated.
WITH stepped AS (
  SELECT run_id, source_id, process_key, engine, incarnation, step_ix, gpu_step_ix
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
), printed AS (
  SELECT r.run_id, r.source_id, r.process_key, r.engine, r.incarnation, count(*) AS iterations
  FROM reach AS r
  JOIN raw.engine_steps AS t ON t.run_id = r.run_id AND t.engine = r.engine AND t.incarnation = r.incarnation
    AND t.step_ix BETWEEN r.from_ix AND r.to_ix
  WHERE NOT t.dummy AND coalesce(t.context_tokens, 0) + coalesce(t.generation_tokens, 0) > 0
  GROUP BY ALL
)
SELECT p.run_id, p.source_id, p.process_key, CAST(sum(p.iterations) AS BIGINT) AS iterations,
  CAST(sum(p.iterations - s.steps) AS BIGINT) AS missing
FROM printed AS p
JOIN shown AS s ON s.run_id = p.run_id AND s.source_id = p.source_id AND s.process_key IS NOT DISTINCT FROM p.process_key
  AND s.engine = p.engine AND s.incarnation = p.incarnation
GROUP BY p.run_id, p.source_id, p.process_key
HAVING sum(p.iterations - s.steps) >= 3
