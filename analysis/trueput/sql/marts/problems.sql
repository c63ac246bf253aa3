-- One row per thing in the input that was not as it should be, and per place where figures had to be
-- cut so that parts add up, or a window that cuts the load leaves something unknown.
SELECT run_id, source_id, line, code, severity, text, occurrences FROM raw.problems
UNION ALL BY NAME
SELECT run_id, NULL::VARCHAR AS source_id, NULL::BIGINT AS line, 'SUM001' AS code, 'info' AS severity,
  concat('the engine''s phases of ', count(*), ' requests exceed their end-to-end time, by at most ',
    max(excess_ns) // 1000, ' us; the least certain phase was cut') AS text,
  count(*) AS occurrences
FROM request_phases WHERE excess_ns > 0
GROUP BY run_id
UNION ALL BY NAME
SELECT run_id, NULL::VARCHAR AS source_id, NULL::BIGINT AS line, 'SUM002' AS code, 'warning' AS severity,
  concat('printed step times exceed the window by ', max(excess_ns) // 1000000, ' ms; the largest work was cut') AS text,
  1 AS occurrences
FROM int_engine_work WHERE excess_ns > 0
GROUP BY run_id
UNION ALL BY NAME
SELECT run_id, NULL::VARCHAR AS source_id, NULL::BIGINT AS line, code, 'warning' AS severity, text, occurrences
FROM int_client_times
UNION ALL BY NAME
SELECT run_id, NULL::VARCHAR AS source_id, NULL::BIGINT AS line, code, 'warning' AS severity, text, occurrences
FROM int_engine_coverage
UNION ALL BY NAME
SELECT run_id, NULL::VARCHAR AS source_id, NULL::BIGINT AS line, code, severity, text, occurrences
FROM int_window_notes
