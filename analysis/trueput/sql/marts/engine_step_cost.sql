-- One row per run: the fitted cost of an iteration. time = constant + prefill_token x (prefilled +
-- recomputed tokens) + decode_sequence x sequences + kv_token x KV tokens in use; no negative terms.
SELECT run_id, constant_ns, prefill_token_ns, decode_sequence_ns, kv_token_ns, steps_fitted,
  trimmed_r2, method
FROM raw.step_costs
