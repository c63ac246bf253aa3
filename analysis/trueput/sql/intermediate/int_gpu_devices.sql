-- One row per run and profiled device, with the span of time in which the capture saw it.
-- captured_from / captured_to: first to last launch or operation of the device's process. Before and
-- after, nothing is known of the device.
-- is_blind, has_spans, is_partial, is_astray, unseen_ns, lacks_copies: see int_gpu_hidden.
WITH seen AS (
  SELECT run_id, device_key, min(source_id) AS source_id,
    min(first_at_ns) AS first_op_ns, max(last_at_ns) AS last_op_ns, CAST(sum(operations) AS BIGINT) AS operations
  FROM int_gpu_op_totals GROUP BY run_id, device_key
), calls AS (
  SELECT run_id, source_id, process_key, min(start_at_ns) AS first_call_ns, max(end_at_ns) AS last_call_ns
  FROM raw.gpu_launches GROUP BY run_id, source_id, process_key
), called AS (
  SELECT t.run_id, t.device_key, min(c.first_call_ns) AS first_call_ns, max(c.last_call_ns) AS last_call_ns
  FROM int_gpu_op_totals AS t
  JOIN calls AS c ON c.run_id = t.run_id AND c.source_id = t.source_id
    AND c.process_key IS NOT DISTINCT FROM t.process_key
  GROUP BY t.run_id, t.device_key
)
SELECT
  s.run_id, s.device_key, s.source_id, s.operations, n.device,
  least(s.first_op_ns, coalesce(c.first_call_ns, s.first_op_ns)) AS captured_from_ns,
  greatest(s.last_op_ns, coalesce(c.last_call_ns, s.last_op_ns)) AS captured_to_ns,
  s.first_op_ns, s.last_op_ns, h.is_blind, h.has_spans, h.is_partial, h.is_astray, h.unseen_ns, h.lacks_copies
FROM seen AS s
JOIN int_gpu_device_numbers AS n ON n.run_id = s.run_id AND n.device_key = s.device_key
JOIN int_gpu_hidden AS h ON h.run_id = s.run_id AND h.device_key = s.device_key
LEFT JOIN called AS c ON c.run_id = s.run_id AND c.device_key = s.device_key
