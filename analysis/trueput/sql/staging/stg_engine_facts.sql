-- One row per thing the engine said of a request: a log event, or a span (event = 'span').
-- Why: one grouping over both gives one engine row per request, whatever the engine wrote.
SELECT
  run_id,
  -- an internal id is the external one, a dash and eight hex digits; children of n > 1 are folded
  coalesce(
    regexp_replace(request_id, '^\d+_((?:chat)?cmpl-)', '\1'),
    regexp_replace(regexp_replace(engine_request_id, '-[0-9a-f]{8}$', ''), '^\d+_((?:chat)?cmpl-)', '\1')
  ) AS request_id,
  engine_request_id, event, at_ns, NULL::BIGINT AS ended_at_ns,
  max_tokens AS asked_output_tokens, prompt_tokens, NULL::BIGINT AS cached_prompt_tokens,
  NULL::BIGINT AS output_tokens, NULL::BIGINT AS queue_ns, NULL::BIGINT AS prefill_ns,
  NULL::BIGINT AS decode_ns, NULL::BIGINT AS ttft_ns, NULL::BIGINT AS e2e_ns,
  NULL::BIGINT AS kv_transfer_ns, NULL::BIGINT AS preemptions, NULL::VARCHAR AS replica,
  detail AS finish_reason, NULL::VARCHAR AS status
FROM raw.request_events
WHERE event <> 'responded' AND coalesce(request_id, engine_request_id) IS NOT NULL
UNION ALL
SELECT
  run_id, request_id, engine_request_id, 'span' AS event, arrived_at_ns AS at_ns, ended_at_ns,
  asked_output_tokens, prompt_tokens, cached_prompt_tokens, output_tokens, queue_ns, prefill_ns,
  decode_ns, ttft_ns, e2e_ns, kv_transfer_ns, preemptions, replica, finish_reason, status
FROM stg_records
WHERE vantage = 'engine' AND request_id IS NOT NULL
