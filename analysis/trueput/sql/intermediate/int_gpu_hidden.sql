-- One row per run and profiled device: what its captures, of all files that saw it, cannot show.
-- is_blind: graph launches were seen without their kernels, so gaps cannot be called idle.
-- has_spans: whole-graph spans show when graphs ran, if not what; none of them missing, or is_partial.
-- is_partial: operations were lost, and may have run in any gap. Damage that left the operations
-- whole (calls, annotations) does not count.
-- unseen_ns: idle time in which a few lost operations may have run.
-- is_astray: the file's clock is not that of the run (off_clock): what it shows in the window is neither
-- at least nor at most what ran in it.
-- lacks_copies: its kernels are whole, and its copies were not recorded (copies_missing): gaps may be copies.
-- first_op, last_op: between them the device was certainly watched.
-- Runs that an older version read say neither: then the mode of graphs and the file's status decide.
WITH captures AS (
  SELECT run_id, source_id,
    bool_or(coalesce(graphs_hidden, graph_launches > 0 AND graph_mode = 'graph', false)) AS is_blind,
    bool_or(coalesce(operations_lost, status = 'partial')) AS is_partial,
    bool_or(coalesce(off_clock, false)) AS is_astray, sum(unseen_ns) AS unseen_ns,
    bool_or(coalesce(copies_missing, false)) AS lacks_copies
  FROM raw.gpu_captures GROUP BY run_id, source_id
)
SELECT s.run_id, s.device_key, min(s.first_at_ns) AS first_op_ns, max(s.last_at_ns) AS last_op_ns,
  bool_or(coalesce(c.is_blind, false)) OR sum(s.graph_spans) > 0 AS is_blind,
  sum(s.graph_spans) > 0 AS has_spans,
  bool_or(coalesce(c.is_partial, false)) AS is_partial,
  bool_or(coalesce(c.is_astray, false)) AS is_astray, CAST(coalesce(sum(c.unseen_ns), 0) AS BIGINT) AS unseen_ns,
  bool_or(coalesce(c.lacks_copies, false)) AS lacks_copies
FROM int_gpu_op_totals AS s
LEFT JOIN captures AS c ON c.run_id = s.run_id AND c.source_id = s.source_id
GROUP BY s.run_id, s.device_key
