-- One row per request and vantage: the records of one vantage merged, instants in UTC where known.
-- Engine rows come from spans and log lines together. A request that the engine refused before it
-- had an id is known from its access line alone: an engine row with status `refused` and no id.
SELECT
  run_id, source_id, row_ix, vantage, session, request_id, engine_request_id, correlation_id,
  replica, label, traffic, scheduled_at_ns, sent_at_ns, arrived_at_ns, first_token_at_ns, last_token_at_ns,
  ended_at_ns, prompt_tokens, cached_prompt_tokens, output_tokens, asked_output_tokens,
  output_tokens_source, ignore_eos, status, http_status, finish_reason, error_kind, queue_ns,
  prefill_ns, decode_ns, ttft_ns, e2e_ns, client_queue_ns, kv_transfer_ns, preemptions, gaps_ns
FROM stg_records
WHERE vantage <> 'engine'
UNION ALL BY NAME
SELECT
  run_id, 'engine' AS vantage, request_id, engine_request_id, replica,
  'load' AS traffic,
  arrived_at_ns, first_token_at_ns, ended_at_ns, prompt_tokens, cached_prompt_tokens,
  output_tokens, asked_output_tokens,
  CASE WHEN output_tokens IS NOT NULL THEN 'engine_usage' END AS output_tokens_source,
  CASE WHEN was_aborted THEN 'aborted' WHEN was_finished THEN 'finished'
    WHEN was_failed THEN 'failed' END AS status,
  finish_reason, queue_ns, prefill_ns, decode_ns, ttft_ns, e2e_ns, kv_transfer_ns,
  coalesce(preemptions, preempted_events) AS preemptions
FROM int_engine_requests
WHERE was_admitted OR (was_received AND NOT starts_with(request_id, 'tokenize-'))
UNION ALL BY NAME
SELECT
  run_id, source_id, 'engine' AS vantage, 'load' AS traffic, at_ns AS arrived_at_ns,
  CASE WHEN refusal_status(http_status) THEN 'refused' ELSE 'http_error' END AS status, http_status
FROM raw.request_events
WHERE event = 'responded' AND http_status >= 400 AND generation_route(route)
