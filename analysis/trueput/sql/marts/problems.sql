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
-- Iterations of asynchronous scheduling overlap by twos, and a step is the window's when its second
-- touches it (a second on either side): only what exceeds both is a contradiction.
SELECT k.run_id, NULL::VARCHAR AS source_id, NULL::BIGINT AS line, 'SUM002' AS code,
  CASE WHEN k.is_explained THEN 'info' ELSE 'warning' END AS severity,
  concat('printed step times exceed the window by ', k.excess_ns // 1000000, ' ms; the largest work was cut',
    CASE WHEN k.is_explained THEN ': iterations may overlap, or lie across the ends of the window'
      ELSE ': more than iterations that overlap by twos and lie across its ends can' END) AS text,
  1 AS occurrences
FROM (
  SELECT w.run_id, max(w.excess_ns) AS excess_ns,
    max(w.excess_ns) <= max(CASE WHEN r.async = 'false' THEN 0 ELSE device_time(w.window_ns, w.devices) END
      + device_time(CASE WHEN r.async = 'false' THEN 2000000000 ELSE 4000000000 END, w.devices)) AS is_explained
  FROM int_engine_work AS w
  JOIN (SELECT run_id,
      CASE WHEN json_valid(config_json) THEN json_extract_string(config_json, '$.async_scheduling') END AS async
    FROM raw.runs) AS r ON r.run_id = w.run_id
  WHERE w.excess_ns > 0
  GROUP BY w.run_id
) AS k
UNION ALL BY NAME
SELECT run_id, NULL::VARCHAR AS source_id, NULL::BIGINT AS line, code, 'warning' AS severity, text, occurrences
FROM int_client_times
UNION ALL BY NAME
SELECT run_id, NULL::VARCHAR AS source_id, NULL::BIGINT AS line, code, 'warning' AS severity, text, occurrences
FROM int_engine_coverage
UNION ALL BY NAME
SELECT v.run_id, v.source_id, NULL::BIGINT AS line, 'OVERHEAD001' AS code,
  CASE WHEN v.idle_ns * 100 > v.window_ns THEN 'warning' ELSE 'info' END AS severity,
  concat('the profiler did work of its own in ', printf('%.6g', v.covered_ns / 1e6), ' ms of the window of ',
    printf('%.6g', v.window_ns / 1e6), ' ms of device ', n.device,
    coalesce(concat(', in ', printf('%.6g', v.idle_ns / 1e6), ' ms of which the device ran nothing'), ''),
    ': that time may be idle because of the profiler, and idle''s low leaves it out') AS text,
  v.stretches AS occurrences
FROM int_gpu_overheads AS v
JOIN int_gpu_device_numbers AS n ON n.run_id = v.run_id AND n.device_key = v.device_key
UNION ALL BY NAME
SELECT run_id, source_id, NULL::BIGINT AS line, 'ATTR019' AS code, 'warning' AS severity,
  concat(sum(missing), ' of ', sum(iterations), ' iterations of the log while it watched have no annotation in it: ',
    'compute that was launched outside of annotated steps may be theirs, and is unattributed') AS text,
  CAST(sum(missing) AS BIGINT) AS occurrences
FROM int_gpu_unannotated AS u
-- where operations are lost as well, INGEST009 counts what is missing
ANTI JOIN raw.gpu_captures AS c ON c.run_id = u.run_id AND c.source_id = u.source_id AND c.operations_lost
GROUP BY run_id, source_id
-- one or two may be chance
HAVING max(missing) >= 3
UNION ALL BY NAME
SELECT run_id, NULL::VARCHAR AS source_id, NULL::BIGINT AS line, code, severity, text, occurrences
FROM int_window_notes
