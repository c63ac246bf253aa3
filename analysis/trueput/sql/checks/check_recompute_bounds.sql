-- One row per run whose recompute figures lie outside their own bounds. Must be empty.
SELECT run_id, recomputed_tokens, recomputed_tokens_low, recomputed_tokens_high
FROM recompute
WHERE recomputed_tokens < recomputed_tokens_low OR recomputed_tokens > recomputed_tokens_high
  OR recompute_ns < recompute_ns_low OR recompute_ns > recompute_ns_high
  OR recomputed_tokens > scheduled_tokens
