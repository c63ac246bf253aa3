-- One row per GPU operation with the step that its launch ties it to: the step of its process whose
-- annotation holds the launching call, on the same thread.
-- Why by launch: a step's kernels run after its annotation has ended on the host.
-- gpu_step_ix is -2 for an operation launched outside every step of a process that has steps, and -1
-- where the launch, or any step annotation, is missing.
WITH calls AS (
  SELECT l.run_id, l.source_id, l.process_key, l.correlation_id,
    CASE WHEN l.start_at_ns <= s.end_at_ns THEN s.gpu_step_ix ELSE -2 END AS gpu_step_ix
  FROM raw.gpu_launches AS l
  ASOF LEFT JOIN raw.gpu_steps AS s
    ON s.run_id = l.run_id AND s.source_id = l.source_id
    AND s.process_key = l.process_key AND s.thread_key = l.thread_key
    AND l.start_at_ns >= s.start_at_ns
  WHERE l.correlation_id IS NOT NULL
), stepped AS (
  SELECT DISTINCT run_id, source_id, process_key FROM raw.gpu_steps
)
SELECT o.run_id, o.device_key, o.kind, o.class, o.start_at_ns, o.end_at_ns,
  CASE WHEN p.run_id IS NULL OR c.correlation_id IS NULL THEN -1 ELSE coalesce(c.gpu_step_ix, -2) END AS gpu_step_ix
FROM raw.gpu_ops AS o
LEFT JOIN calls AS c
  ON c.run_id = o.run_id AND c.source_id = o.source_id AND c.process_key = o.process_key
  AND c.correlation_id = o.correlation_id
LEFT JOIN stepped AS p
  ON p.run_id = o.run_id AND p.source_id = o.source_id AND p.process_key = o.process_key
