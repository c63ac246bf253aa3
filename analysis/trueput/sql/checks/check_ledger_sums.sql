-- One row per run whose ledger does not sum exactly to window_ns x devices. Must be empty.
SELECT run_id, CAST(sum(time_ns) AS BIGINT) AS cells_ns, TRY_CAST(device_time(max(window_ns), max(devices)) AS BIGINT) AS whole_ns
FROM gpu_ledger
GROUP BY run_id
HAVING sum(time_ns) <> device_time(max(window_ns), max(devices))
