-- One row per thing that a log said of a request, by the id a client can know; of runs of which ingest
-- kept no request_instants.
SELECT
  e.run_id,
  -- an internal id is the external one, a dash and eight hex digits
  coalesce(external_id(e.request_id),
    external_id(regexp_replace(e.engine_request_id, '-[0-9a-f]{8}$', ''))) AS request_id,
  e.engine_request_id, e.event, e.at_ns, e.max_tokens, e.prompt_tokens, e.detail
FROM raw.request_events AS e
-- without such a run the join reads hardly any event
JOIN (
  SELECT run_id FROM raw.runs WHERE run_id NOT IN (SELECT run_id FROM raw.request_instants)
) AS r ON r.run_id = e.run_id
WHERE e.event <> 'responded' AND (e.request_id IS NOT NULL OR e.engine_request_id IS NOT NULL)
