-- One row per request of which the engine wrote a record of its own (a span).
SELECT
  run_id, request_id,
  max(engine_request_id) AS engine_request_id,
  max(replica) AS replica,
  min(arrived_at_ns) AS arrived_at_ns,
  max(ended_at_ns) AS ended_at_ns,
  bool_or(coalesce(status, 'finished') = 'finished') AS was_finished,
  max(asked_output_tokens) AS asked_output_tokens,
  max(prompt_tokens) AS prompt_tokens,
  max(cached_prompt_tokens) AS cached_prompt_tokens,
  CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
  max(queue_ns) AS queue_ns, max(prefill_ns) AS prefill_ns, max(decode_ns) AS decode_ns,
  min(ttft_ns) AS ttft_ns, max(e2e_ns) AS e2e_ns, max(kv_transfer_ns) AS kv_transfer_ns,
  CAST(sum(preemptions) AS BIGINT) AS preemptions,
  max(finish_reason) AS finish_reason
FROM stg_records
WHERE vantage = 'engine' AND request_id IS NOT NULL AND NOT starts_with(request_id, 'tokenize-')
GROUP BY run_id, request_id
