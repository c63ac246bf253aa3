-- One row per log, engine and incarnation in it: which life of the engine its iterations are of.
-- A log counts the starts that it holds; those between two logs show in the numbers of iterations, which
-- begin anew. Logs of one engine are of one life where each goes on from the last number of the one before.
-- Computed once. Few rows from all iterations.
SELECT run_id, source_id, engine, incarnation,
  sum(CASE WHEN before_ix >= first_ix THEN 1 ELSE 0 END) OVER (
    PARTITION BY run_id, engine, incarnation ORDER BY first_ns, source_id ROWS UNBOUNDED PRECEDING) AS life
FROM (
  SELECT *, lag(last_ix) OVER (PARTITION BY run_id, engine, incarnation ORDER BY first_ns, source_id) AS before_ix
  FROM (
    SELECT run_id, source_id, engine, incarnation, min(step_ix) AS first_ix, max(step_ix) AS last_ix, min(logged_at_ns) AS first_ns
    FROM raw.engine_steps GROUP BY run_id, source_id, engine, incarnation
  )
)
