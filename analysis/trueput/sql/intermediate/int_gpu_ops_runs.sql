-- One row per run of which ingest kept no totals of GPU operations: its operations must be looked at.
-- A run without any operation is among them: nothing is found then.
SELECT run_id FROM raw.runs
WHERE run_id NOT IN (SELECT run_id FROM raw.gpu_op_totals)
