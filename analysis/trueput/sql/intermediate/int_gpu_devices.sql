-- One row per run and profiled device, with the span of time in which the capture saw it.
-- captured_from / captured_to: first to last launch or operation of the device's process. Before and
-- after, nothing is known of the device.
-- is_blind: graph launches were seen without their kernels, so gaps cannot be called idle.
WITH seen AS (
  SELECT run_id, device_key, min(source_id) AS source_id, min(process_key) AS process_key,
    min(first_at_ns) AS first_op_ns, max(last_at_ns) AS last_op_ns, CAST(sum(operations) AS BIGINT) AS operations,
    sum(graph_spans) AS graph_spans
  FROM int_gpu_op_totals GROUP BY run_id, device_key
), calls AS (
  SELECT run_id, source_id, process_key, min(start_at_ns) AS first_call_ns, max(end_at_ns) AS last_call_ns
  FROM raw.gpu_launches GROUP BY run_id, source_id, process_key
), captures AS (
  SELECT run_id, source_id,
    bool_or(coalesce(graph_launches, 0) > 0 AND graph_mode = 'graph') AS graph_mode,
    bool_or(status = 'partial') AS is_partial
  FROM raw.gpu_captures GROUP BY run_id, source_id
)
SELECT
  s.run_id, s.device_key, s.source_id, s.operations, n.device,
  least(s.first_op_ns, coalesce(c.first_call_ns, s.first_op_ns)) AS captured_from_ns,
  greatest(s.last_op_ns, coalesce(c.last_call_ns, s.last_op_ns)) AS captured_to_ns,
  s.first_op_ns, s.last_op_ns,
  coalesce(p.graph_mode, false) OR s.graph_spans > 0 AS is_blind,
  coalesce(p.is_partial, false) AS is_partial
FROM seen AS s
JOIN int_gpu_device_numbers AS n ON n.run_id = s.run_id AND n.device_key = s.device_key
LEFT JOIN calls AS c ON c.run_id = s.run_id AND c.source_id = s.source_id
  AND c.process_key IS NOT DISTINCT FROM s.process_key
LEFT JOIN captures AS p ON p.run_id = s.run_id AND p.source_id = s.source_id
