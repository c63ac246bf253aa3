-- One row per run, file and device whose kept totals are not those of its operations. Must be empty.
WITH counted AS (
  SELECT run_id, source_id, device_key, min(process_key) AS process_key, min(device) AS device, count(*) AS operations,
    count(*) FILTER (kind = 'graph_span') AS graph_spans, min(start_at_ns) AS first_at_ns, max(end_at_ns) AS last_at_ns
  FROM raw.gpu_ops
  WHERE run_id IN (SELECT run_id FROM raw.gpu_op_totals) AND is_counted(quality)
  GROUP BY run_id, source_id, device_key
)
SELECT coalesce(k.run_id, c.run_id) AS run_id, coalesce(k.source_id, c.source_id) AS source_id,
  coalesce(k.device_key, c.device_key) AS device_key,
  coalesce(k.operations, 0) AS kept, coalesce(c.operations, 0) AS operations
FROM raw.gpu_op_totals AS k
FULL JOIN counted AS c ON c.run_id = k.run_id AND c.source_id = k.source_id AND c.device_key = k.device_key
WHERE k.process_key IS DISTINCT FROM c.process_key OR k.device IS DISTINCT FROM c.device
  OR k.operations IS DISTINCT FROM c.operations OR k.graph_spans IS DISTINCT FROM c.graph_spans
  OR k.first_at_ns IS DISTINCT FROM c.first_at_ns OR k.last_at_ns IS DISTINCT FROM c.last_at_ns
