-- One row per request that an engine's log or scheduler events name.
-- Formula: each instant is the first of its kind, an end the last. Null rule: what no event says stays
-- NULL. As ingest kept it; where it did not, from the events themselves.
SELECT * FROM raw.request_instants
UNION ALL BY NAME
SELECT
  run_id, request_id,
  max(engine_request_id) AS engine_request_id,
  least(min(at_ns) FILTER (event IN ('received', 'added')), min(at_ns) FILTER (event = 'queued')) AS arrived_at_ns,
  min(at_ns) FILTER (event = 'queued') AS queued_at_ns,
  min(at_ns) FILTER (event = 'scheduled') AS scheduled_at_ns,
  min(at_ns) FILTER (event = 'first_token') AS first_token_at_ns,
  max(at_ns) FILTER (event IN ('finished', 'aborted', 'failed')) AS ended_at_ns,
  max(at_ns) FILTER (event = 'finished') AS finished_at_ns,
  bool_or(event = 'received') AS was_received,
  bool_or(event IN ('added', 'queued', 'scheduled')) AS was_admitted,
  bool_or(event = 'aborted') AS was_aborted,
  bool_or(event = 'failed') AS was_failed,
  bool_or(event = 'finished') AS was_finished,
  CAST(sum(CASE WHEN event = 'preempted' THEN 1 END) AS BIGINT) AS preempted_events,
  max(max_tokens) AS asked_output_tokens,
  max(prompt_tokens) AS prompt_tokens,
  max(detail) FILTER (event = 'finished' AND detail IS NOT NULL) AS finish_reason
FROM stg_engine_facts
-- the bench client asks /tokenize once: no generation request
WHERE NOT starts_with(request_id, 'tokenize-')
GROUP BY run_id, request_id
