-- One row per thing that a log said of a request, by the id a client can know.
-- `said` is the kind of thing as one bit, so that one aggregate tells all kinds that were seen:
-- 1 received, 2 added, queued or scheduled, 4 aborted, 8 failed, 16 finished, 32 preempted.
SELECT
  run_id,
  -- an internal id is the external one, a dash and eight hex digits
  coalesce(external_id(request_id),
    external_id(regexp_replace(engine_request_id, '-[0-9a-f]{8}$', ''))) AS request_id,
  engine_request_id, event, at_ns, max_tokens, prompt_tokens, detail,
  CASE event WHEN 'received' THEN 1 WHEN 'added' THEN 2 WHEN 'queued' THEN 2 WHEN 'scheduled' THEN 2
    WHEN 'aborted' THEN 4 WHEN 'failed' THEN 8 WHEN 'finished' THEN 16 WHEN 'preempted' THEN 32
    ELSE 0 END::UTINYINT AS said
FROM raw.request_events
WHERE event <> 'responded' AND (request_id IS NOT NULL OR engine_request_id IS NOT NULL)
