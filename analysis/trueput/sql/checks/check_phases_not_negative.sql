-- One row per request with a negative phase. Must be empty.
SELECT run_id, request_id,
  least(queue_ns, prefill_ns, decode_ns, requeue_ns, recompute_ns, kv_transfer_ns, outside_ns, unattributed_ns) AS smallest_ns
FROM request_phases
WHERE least(queue_ns, prefill_ns, decode_ns, requeue_ns, recompute_ns, kv_transfer_ns, outside_ns, unattributed_ns) < 0
