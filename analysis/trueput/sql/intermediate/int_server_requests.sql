-- One row per request as servers, routers and gateways beside the engine recorded it.
SELECT
  run_id, request_id,
  max(session) AS session,
  min(traffic) AS traffic,
  max(correlation_id) AS correlation_id,
  max(replica) AS replica,
  max(label) AS label,
  min(arrived_at_ns) AS arrived_at_ns,
  min(first_token_at_ns) AS first_token_at_ns,
  max(last_token_at_ns) AS last_token_at_ns,
  max(ended_at_ns) AS ended_at_ns,
  max(prompt_tokens) AS prompt_tokens,
  max(cached_prompt_tokens) AS cached_prompt_tokens,
  CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
  max(asked_output_tokens) AS asked_output_tokens,
  bool_or(ignore_eos) AS ignore_eos,
  -- the worst of what several records say
  max(status) FILTER (status NOT IN ('ok', 'finished')) AS bad_status,
  max(status) FILTER (status IN ('ok', 'finished')) AS good_status,
  -- these records say how requests ended: one of them that does not say leaves its request open
  bool_or(bool_or(status IS NOT NULL)) OVER (PARTITION BY run_id) AS statuses_are_told,
  max(http_status) AS http_status,
  max(error_kind) AS error_kind,
  max(queue_ns) AS queue_ns, max(prefill_ns) AS prefill_ns, max(decode_ns) AS decode_ns,
  min(ttft_ns) AS ttft_ns, max(e2e_ns) AS e2e_ns, max(kv_transfer_ns) AS kv_transfer_ns
FROM stg_records
WHERE vantage IN ('server', 'router') AND request_id IS NOT NULL
GROUP BY run_id, request_id
