-- One row per request whose phases do not add up exactly to its end-to-end time. Must be empty.
SELECT run_id, request_id, e2e_ns,
  coalesce(queue_ns, 0) + coalesce(prefill_ns, 0) + coalesce(decode_ns, 0) + coalesce(requeue_ns, 0)
    + coalesce(recompute_ns, 0) + coalesce(kv_transfer_ns, 0) + coalesce(outside_ns, 0)
    + coalesce(unattributed_ns, 0) AS parts_ns
FROM request_phases
WHERE e2e_ns IS NOT NULL
  AND e2e_ns <> coalesce(queue_ns, 0) + coalesce(prefill_ns, 0) + coalesce(decode_ns, 0) + coalesce(requeue_ns, 0)
    + coalesce(recompute_ns, 0) + coalesce(kv_transfer_ns, 0) + coalesce(outside_ns, 0)
    + coalesce(unattributed_ns, 0)
