-- One row per request of which the engine wrote a record of its own (a span).
-- replica: as the record names it; else its file, in a run in which files without a name were
-- written at the same time, as those of several engines are. One engine's rotated files follow
-- each other.
-- sequences: answers to it (n), by the numbers of its spans; longest_tokens: of the longest of them.
WITH files AS (
  SELECT run_id, source_id, min(arrived_at_ns) AS from_ns, max(ended_at_ns) AS to_ns
  FROM stg_records
  WHERE vantage = 'engine' AND replica IS NULL
  GROUP BY run_id, source_id
), several AS (
  SELECT DISTINCT a.run_id
  FROM files AS a
  JOIN files AS b ON b.run_id = a.run_id AND b.source_id > a.source_id
  WHERE a.from_ns < b.to_ns AND b.from_ns < a.to_ns
)
SELECT
  r.run_id, r.request_id,
  max(r.engine_request_id) AS engine_request_id,
  coalesce(max(r.replica), max(r.source_id) FILTER (t.run_id IS NOT NULL)) AS replica,
  min(arrived_at_ns) AS arrived_at_ns,
  min(first_token_at_ns) AS first_token_at_ns,
  max(ended_at_ns) AS ended_at_ns,
  bool_or(coalesce(status, 'finished') IN ('finished', 'ok')) AS was_finished,
  bool_or(status IN ('aborted', 'cancelled')) AS was_aborted,
  max(asked_output_tokens) AS asked_output_tokens,
  max(prompt_tokens) AS prompt_tokens,
  max(cached_prompt_tokens) AS cached_prompt_tokens,
  CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
  max(output_tokens) AS longest_tokens, count(output_tokens) AS counted_spans, max(child) + 1 AS sequences,
  max(queue_ns) AS queue_ns, max(prefill_ns) AS prefill_ns, max(decode_ns) AS decode_ns,
  min(ttft_ns) AS ttft_ns, max(e2e_ns) AS e2e_ns, max(kv_transfer_ns) AS kv_transfer_ns,
  CAST(sum(preemptions) AS BIGINT) AS preemptions,
  max(finish_reason) AS finish_reason
FROM stg_records AS r
LEFT JOIN several AS t ON t.run_id = r.run_id
WHERE r.vantage = 'engine' AND r.request_id IS NOT NULL AND NOT starts_with(r.request_id, 'tokenize-')
GROUP BY r.run_id, r.request_id
