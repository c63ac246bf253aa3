-- One row per request that an engine saw, by the id a client can know.
-- Formula: each instant is the first of its kind; a span's own figures come before log lines.
-- Null rule: what neither a span nor an event says stays NULL. Abort without an end line has none.
SELECT
  run_id, request_id,
  max(engine_request_id) AS engine_request_id,
  max(replica) AS replica,
  coalesce(min(at_ns) FILTER (event = 'span'), min(at_ns) FILTER (event IN ('received', 'added', 'queued')))
    AS arrived_at_ns,
  min(at_ns) FILTER (event = 'queued') AS queued_at_ns,
  min(at_ns) FILTER (event = 'scheduled') AS scheduled_at_ns,
  min(at_ns) FILTER (event = 'first_token') AS first_token_at_ns,
  coalesce(max(ended_at_ns) FILTER (event = 'span'),
    max(at_ns) FILTER (event IN ('finished', 'aborted', 'failed'))) AS ended_at_ns,
  max(at_ns) FILTER (event = 'finished') AS finished_at_ns,
  bool_or(event = 'span') AS has_span,
  bool_or(event = 'received') AS was_received,
  bool_or(event IN ('added', 'queued', 'scheduled', 'span')) AS was_admitted,
  bool_or(event = 'aborted') AS was_aborted,
  bool_or(event = 'failed') AS was_failed,
  bool_or(event = 'finished' OR (event = 'span' AND coalesce(status, 'finished') = 'finished')) AS was_finished,
  CAST(sum(CASE WHEN event = 'preempted' THEN 1 END) AS BIGINT) AS preempted_events,
  max(asked_output_tokens) AS asked_output_tokens,
  max(prompt_tokens) AS prompt_tokens,
  max(cached_prompt_tokens) AS cached_prompt_tokens,
  CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
  max(queue_ns) AS queue_ns, max(prefill_ns) AS prefill_ns, max(decode_ns) AS decode_ns,
  min(ttft_ns) AS ttft_ns, max(e2e_ns) AS e2e_ns, max(kv_transfer_ns) AS kv_transfer_ns,
  CAST(sum(preemptions) AS BIGINT) AS preemptions,
  max(finish_reason) FILTER (event IN ('finished', 'span')) AS finish_reason
FROM stg_engine_facts
-- the bench client asks /tokenize once: no generation request
WHERE NOT starts_with(request_id, 'tokenize-')
GROUP BY run_id, request_id
