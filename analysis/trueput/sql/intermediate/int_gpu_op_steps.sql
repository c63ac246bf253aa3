-- One row per GPU operation with the step that its launch ties it to: the step of its process whose
-- annotation holds the start of the launching call, on the same thread; of overlapping annotations the
-- one that began last before the call.
-- Why by launch: a step's kernels run after its annotation has ended on the host.
-- gpu_step_ix is -2 for an operation launched outside every step of a process that has steps, and -1
-- where the launch, or any step annotation, is missing.
-- How: each step, up to the start of the next, is laid out in equal cells of time, so that a call finds
-- its step by equality (thread and cell) instead of by order.
WITH stepped AS (
  SELECT place_number(run_id, source_id, process_key) AS process,
    hash(place_number(run_id, source_id, process_key), thread_key) AS thread,
    gpu_step_ix, start_at_ns AS from_ns,
    least(end_at_ns, lead(start_at_ns) OVER (
      PARTITION BY run_id, source_id, process_key, thread_key ORDER BY start_at_ns, gpu_step_ix) - 1) AS to_ns
  FROM raw.gpu_steps
  WHERE process_key IS NOT NULL AND thread_key IS NOT NULL
), width AS (
  -- of a cell: the mean length of a step, so that there are at most three cells per step
  SELECT CAST(greatest(1, sum(to_ns - from_ns) // count(*)) AS BIGINT) AS width_ns
  FROM stepped WHERE to_ns >= from_ns
), cells AS (
  SELECT thread, gpu_step_ix, from_ns, to_ns,
    unnest(range(from_ns // width_ns, to_ns // width_ns + 1)) AS cell
  FROM (SELECT *, (SELECT width_ns FROM width) AS width_ns FROM stepped WHERE to_ns >= from_ns)
), launches AS (
  SELECT place_number(run_id, source_id, process_key) AS process,
    hash(place_number(run_id, source_id, process_key), thread_key) AS thread,
    correlation_id, start_at_ns, start_at_ns // (SELECT width_ns FROM width) AS cell
  FROM raw.gpu_launches
  WHERE correlation_id IS NOT NULL AND process_key IS NOT NULL
), calls AS (
  SELECT l.process, l.correlation_id,
    CASE WHEN c.gpu_step_ix IS NOT NULL THEN c.gpu_step_ix
      WHEN list_contains((SELECT list(DISTINCT process) FROM stepped), l.process) THEN -2 ELSE -1 END AS gpu_step_ix
  FROM launches AS l
  LEFT JOIN cells AS c
    ON c.thread = l.thread AND c.cell = l.cell AND l.start_at_ns >= c.from_ns AND l.start_at_ns <= c.to_ns
)
SELECT o.run_id, o.device_key, o.kind, o.class, o.start_at_ns, o.end_at_ns, coalesce(c.gpu_step_ix, -1) AS gpu_step_ix
FROM raw.gpu_ops AS o
LEFT JOIN calls AS c
  ON c.process = place_number(o.run_id, o.source_id, o.process_key) AND c.correlation_id = o.correlation_id
WHERE is_counted(o.quality)
