-- One row per run and load session; a run without a client has one row with session NULL.
SELECT r.run_id, k.session
FROM raw.runs AS r
LEFT JOIN (
  SELECT DISTINCT run_id, session FROM raw.load_sessions
  UNION
  SELECT DISTINCT run_id, session FROM stg_records WHERE vantage = 'client'
) AS k ON k.run_id = r.run_id
