-- One row per run (or load session): the shape of the load, over every planned request that was
-- sent, failed ones included. Token lengths are what was asked for where a file says so.
-- fingerprint: hash of prompt and asked output lengths in order of sending; fingerprint_unordered:
-- of the same, sorted. Equal fingerprints prove the same lengths; unequal ones do not block.
WITH sent AS (
  SELECT *, sent_at_ns - lag(sent_at_ns) OVER (PARTITION BY run_id, session ORDER BY sent_at_ns, row_ix) AS gap_ns
  FROM request_outcomes
  WHERE outcome IS DISTINCT FROM 'other_traffic' AND outcome IS DISTINCT FROM 'not_sent'
)
SELECT
  s.run_id, s.session, count(*) AS requests,
  quantile_disc(prompt_tokens, 0.5) AS prompt_tokens_p50,
  quantile_disc(prompt_tokens, 0.9) AS prompt_tokens_p90,
  quantile_disc(prompt_tokens, 0.99) AS prompt_tokens_p99,
  avg(prompt_tokens) AS prompt_tokens_mean,
  quantile_disc(coalesce(s.asked_output_tokens, output_tokens), 0.5) AS output_tokens_p50,
  quantile_disc(coalesce(s.asked_output_tokens, output_tokens), 0.9) AS output_tokens_p90,
  quantile_disc(coalesce(s.asked_output_tokens, output_tokens), 0.99) AS output_tokens_p99,
  avg(coalesce(s.asked_output_tokens, output_tokens)) AS output_tokens_mean,
  per_second(count(gap_ns), max(sent_at_ns) - min(sent_at_ns)) AS arrival_rate_per_s,
  ratio(stddev_pop(gap_ns), avg(gap_ns)) AS gap_variation_ratio,
  max(l.request_rate_per_s) AS requested_rate_per_s,
  max(l.burstiness) AS burstiness,
  max(l.max_concurrency) AS max_concurrency,
  max(l.planned_requests) AS planned_requests,
  max(l.writer) AS client,
  ratio(sum(cached_prompt_tokens), sum(prompt_tokens) FILTER (cached_prompt_tokens IS NOT NULL)) AS reuse_ratio,
  md5(string_agg(concat(prompt_tokens, '/', s.asked_output_tokens), ',' ORDER BY row_ix, sent_at_ns, request_id)) AS fingerprint,
  md5(string_agg(concat(prompt_tokens, '/', s.asked_output_tokens), ',' ORDER BY prompt_tokens, s.asked_output_tokens)) AS fingerprint_unordered
FROM sent AS s
LEFT JOIN raw.load_sessions AS l ON l.run_id = s.run_id AND l.session IS NOT DISTINCT FROM s.session
GROUP BY s.run_id, s.session
