-- One row per request record of a file, tied to its request and load session.
-- Why: files know different ids. Attribution ties them, and ingest writes what it found into the
-- records (request_links says how), so that no question has to join them again.
SELECT
  run_id, source_id, row_ix, vantage, session,
  -- n > 1 gives children `0_chatcmpl-x`: they are one request to the client
  CASE WHEN vantage = 'engine' THEN external_id(request_id) ELSE request_id END AS request_id,
  CASE WHEN vantage = 'engine' THEN child_number(request_id) END AS child,
  engine_request_id, correlation_id, replica, label, traffic,
  scheduled_at_ns, sent_at_ns, arrived_at_ns, first_token_at_ns, last_token_at_ns,
  ended_at_ns, prompt_tokens, cached_prompt_tokens, output_tokens, asked_output_tokens,
  output_tokens_source, ignore_eos, status, http_status, finish_reason, error_kind,
  queue_ns, prefill_ns, decode_ns, ttft_ns, e2e_ns, client_queue_ns, kv_transfer_ns,
  preemptions, gaps_ns
FROM raw.requests
