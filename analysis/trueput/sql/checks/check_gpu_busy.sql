-- One row per run, device and union whose kept stretches are not those of its operations. Must be empty.
-- kept_ns: their sum. operations_ns: by start, what each operation reaches beyond all before it.
-- faults: stretches that are empty, overlap another of the device, or touch one of their own kind.
WITH devices AS MATERIALIZED (
  SELECT run_id, device_key, device_ix FROM int_gpu_device_numbers
  WHERE run_id IN (SELECT run_id FROM raw.gpu_op_totals)
), stretches AS (
  SELECT d.device_ix, b.kind, b.end_at_ns - b.start_at_ns AS length_ns,
    b.end_at_ns <= b.start_at_ns
      OR coalesce(b.start_at_ns < lag(b.end_at_ns) OVER (PARTITION BY d.device_ix ORDER BY b.start_at_ns, b.end_at_ns), false)
      OR coalesce(b.start_at_ns <= lag(b.end_at_ns) OVER (PARTITION BY d.device_ix, b.kind ORDER BY b.start_at_ns, b.end_at_ns), false)
      AS is_fault
  FROM raw.gpu_busy AS b
  JOIN devices AS d ON d.run_id = b.run_id AND d.device_key = b.device_key
), kept AS (
  SELECT device_ix, 'kernel_union' AS metric, sum(length_ns) AS kept_ns, count(*) FILTER (is_fault) AS faults
  FROM stretches WHERE kind = 'kernel' GROUP BY device_ix
  UNION ALL
  SELECT device_ix, 'gpu_op_union', sum(length_ns), count(*) FILTER (is_fault)
  FROM stretches GROUP BY device_ix
), ran AS (
  SELECT d.device_ix, o.kind, o.start_at_ns, o.end_at_ns
  FROM raw.gpu_ops AS o
  JOIN devices AS d ON d.run_id = o.run_id AND d.device_key = o.device_key
  WHERE o.kind <> 'graph_span' AND o.end_at_ns > o.start_at_ns AND is_counted(o.quality)
), reached AS (
  SELECT device_ix, 'kernel_union' AS metric, start_at_ns, end_at_ns,
    max(end_at_ns) OVER (PARTITION BY device_ix ORDER BY start_at_ns
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ns
  FROM ran WHERE kind = 'kernel'
  UNION ALL
  SELECT device_ix, 'gpu_op_union', start_at_ns, end_at_ns,
    max(end_at_ns) OVER (PARTITION BY device_ix ORDER BY start_at_ns
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
  FROM ran
), operations AS (
  SELECT device_ix, metric,
    sum(greatest(0, end_at_ns - greatest(start_at_ns, coalesce(reached_ns, start_at_ns)))) AS operations_ns
  FROM reached GROUP BY device_ix, metric
)
SELECT d.run_id, d.device_key, coalesce(k.metric, o.metric) AS metric,
  CAST(coalesce(k.kept_ns, 0) AS BIGINT) AS kept_ns,
  CAST(coalesce(o.operations_ns, 0) AS BIGINT) AS operations_ns,
  coalesce(k.faults, 0) AS faults
FROM kept AS k
FULL JOIN operations AS o ON o.device_ix = k.device_ix AND o.metric = k.metric
JOIN devices AS d ON d.device_ix = coalesce(k.device_ix, o.device_ix)
WHERE coalesce(k.kept_ns, 0) <> coalesce(o.operations_ns, 0) OR k.faults > 0
