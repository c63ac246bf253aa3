-- One row per run: which vantages it has. Rules that depend on "is there a client?" read this.
SELECT
  r.run_id,
  coalesce(v.has_client, false) AS has_client,
  coalesce(v.has_server, false) AS has_server,
  r.gpu_count, r.price_per_gpu_hour, r.planned_requests
FROM raw.runs AS r
LEFT JOIN (
  SELECT
    run_id,
    bool_or(vantage = 'client' AND traffic = 'load') AS has_client,
    bool_or(vantage IN ('server', 'router') AND traffic = 'load') AS has_server
  FROM raw.requests GROUP BY run_id
) AS v ON v.run_id = r.run_id
