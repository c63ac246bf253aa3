-- One row per request that an engine's log or scheduler events name.
-- Formula: each instant is the first of its kind. Null rule: what no event says stays NULL.
-- Grouped apart from the spans, whose many columns would be aggregated over every event.
SELECT
  run_id, request_id,
  max(engine_request_id) AS engine_request_id,
  least(min(at_ns) FILTER (event IN ('received', 'added')), min(at_ns) FILTER (event = 'queued')) AS arrived_at_ns,
  min(at_ns) FILTER (event = 'queued') AS queued_at_ns,
  min(at_ns) FILTER (event = 'scheduled') AS scheduled_at_ns,
  min(at_ns) FILTER (event = 'first_token') AS first_token_at_ns,
  max(at_ns) FILTER (event IN ('finished', 'aborted', 'failed')) AS ended_at_ns,
  max(at_ns) FILTER (event = 'finished') AS finished_at_ns,
  bit_or(said) AS said,
  CAST(sum(CASE WHEN said = 32 THEN 1 END) AS BIGINT) AS preempted_events,
  max(max_tokens) AS asked_output_tokens,
  max(prompt_tokens) AS prompt_tokens,
  max(detail) FILTER (event = 'finished' AND detail IS NOT NULL) AS finish_reason
FROM stg_engine_facts
-- the bench client asks /tokenize once: no generation request
WHERE NOT starts_with(request_id, 'tokenize-')
GROUP BY run_id, request_id
