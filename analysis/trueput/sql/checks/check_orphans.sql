-- One row per derived row that points at no request of its run. Must be empty.
SELECT v.run_id, v.request_id
FROM raw.request_recompute AS v
LEFT JOIN request_phases AS p ON p.run_id = v.run_id AND p.request_id = v.request_id
WHERE p.run_id IS NULL
