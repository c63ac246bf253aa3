-- One row per request record of a file, tied to its request and load session.
-- Why: files know different ids; attribution has tied them (request_links).
SELECT
  r.run_id, r.source_id, r.row_ix, r.vantage,
  coalesce(l.session, s.session, r.session) AS session,
  -- n > 1 gives children `0_chatcmpl-x`: they are one request to the client
  coalesce(l.request_id, external_id(r.request_id)) AS request_id,
  r.engine_request_id, r.correlation_id, r.replica, r.traffic,
  r.scheduled_at_ns, r.sent_at_ns, r.arrived_at_ns, r.first_token_at_ns, r.last_token_at_ns,
  r.ended_at_ns, r.prompt_tokens, r.cached_prompt_tokens, r.output_tokens, r.asked_output_tokens,
  r.output_tokens_source, r.ignore_eos, r.status, r.http_status, r.finish_reason, r.error_kind,
  r.queue_ns, r.prefill_ns, r.decode_ns, r.ttft_ns, r.e2e_ns, r.client_queue_ns, r.kv_transfer_ns,
  r.preemptions, r.gaps_ns
FROM raw.requests AS r
LEFT JOIN raw.request_links AS l
  ON l.run_id = r.run_id AND l.source_id = r.source_id AND l.row_ix = r.row_ix
LEFT JOIN raw.sources AS s
  ON s.run_id = r.run_id AND s.source_id = r.source_id
