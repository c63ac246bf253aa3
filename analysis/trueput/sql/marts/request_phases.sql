-- One row per request: its wall time cut into parts that add up exactly to e2e_ns.
-- outside_ns is what lies in no engine phase; a request without any engine record is all
-- unattributed. Where the known parts exceed the whole, outside is 0 and the least certain part is
-- cut first: decode, then prefill, recompute, requeue, queue, transfer; `problems` has a row for it.
-- Null rule: a phase that was not observed is NULL and its basis `unknown`.
SELECT
  run_id, session, request_id, is_load, ruling, queue_ns, prefill_ns, decode_ns, requeue_ns,
  recompute_ns, kv_transfer_ns, outside_ns, unattributed_ns, e2e_ns,
  coalesce(basis_name(queue_rank), 'unknown') AS queue_basis,
  coalesce(basis_name(prefill_rank), 'unknown') AS prefill_basis,
  coalesce(basis_name(decode_rank), 'unknown') AS decode_basis,
  coalesce(basis_name(requeue_rank), 'unknown') AS requeue_basis,
  coalesce(basis_name(recompute_rank), 'unknown') AS recompute_basis,
  coalesce(basis_name(kv_transfer_rank), 'unknown') AS kv_transfer_basis,
  coalesce(basis_name(outside_rank), 'unknown') AS outside_basis,
  coalesce(basis_name(unattributed_rank), 'unknown') AS unattributed_basis,
  coalesce(basis_name(e2e_rank), 'unknown') AS e2e_basis,
  excess_ns
FROM int_phases
