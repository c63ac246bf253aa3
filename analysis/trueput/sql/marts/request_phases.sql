-- One row per request: its wall time cut into parts that add up exactly to e2e_ns.
-- outside_ns is what lies in no engine phase; a request without any engine record is all
-- unattributed. Where the known parts exceed the whole, outside is 0 and the least certain part is
-- cut first: decode, then prefill, recompute, requeue, queue, transfer; `problems` has a row for it.
-- Null rule: a phase that was not observed is NULL and its basis `unknown`.
WITH transfer AS (
  SELECT *, part_within(kv_transfer_ns, coalesce(e2e_ns, kv_transfer_ns)) AS kv,
    coalesce(e2e_ns, 9223372036854775807) - coalesce(kv_transfer_ns, 0) AS left_kv
  FROM int_phase_parts
), queue AS (
  SELECT *, part_within(queue_ns, left_kv) AS q, left_kv - coalesce(queue_ns, 0) AS left_q FROM transfer
), requeue AS (
  SELECT *, part_within(requeue_ns, left_q) AS rq, left_q - coalesce(requeue_ns, 0) AS left_rq FROM queue
), recompute AS (
  SELECT *, part_within(recompute_ns, left_rq) AS rc, left_rq - coalesce(recompute_ns, 0) AS left_rc FROM requeue
), prefill AS (
  SELECT *, part_within(prefill_ns, left_rc) AS pf, left_rc - coalesce(prefill_ns, 0) AS left_pf FROM recompute
), decode AS (
  SELECT *, part_within(decode_ns, left_pf) AS dc, left_pf - coalesce(decode_ns, 0) AS left_dc FROM prefill
), parts AS (
  SELECT *,
    q IS NOT NULL AND pf IS NOT NULL AND dc IS NOT NULL AS is_whole,
    e2e_ns - coalesce(kv, 0) - coalesce(q, 0) - coalesce(rq, 0) - coalesce(rc, 0) - coalesce(pf, 0)
      - coalesce(dc, 0) AS rest_ns
  FROM decode
)
SELECT
  run_id, session, request_id, is_load, ruling,
  q AS queue_ns, pf AS prefill_ns, dc AS decode_ns, rq AS requeue_ns, rc AS recompute_ns,
  kv AS kv_transfer_ns,
  CASE WHEN is_whole THEN rest_ns END AS outside_ns,
  CASE WHEN is_whole THEN CASE WHEN e2e_ns IS NOT NULL THEN 0 END ELSE rest_ns END AS unattributed_ns,
  e2e_ns,
  CASE WHEN q IS NULL THEN 'unknown' ELSE phase_basis END AS queue_basis,
  CASE WHEN pf IS NULL THEN 'unknown' WHEN rq + rc > 0 THEN recompute_basis ELSE phase_basis END AS prefill_basis,
  CASE WHEN dc IS NULL THEN 'unknown' WHEN rq + rc > 0 THEN recompute_basis ELSE phase_basis END AS decode_basis,
  CASE WHEN rq IS NULL THEN 'unknown' ELSE recompute_basis END AS requeue_basis,
  CASE WHEN rc IS NULL THEN 'unknown' ELSE recompute_basis END AS recompute_basis,
  CASE WHEN kv IS NULL THEN 'unknown' ELSE 'reported' END AS kv_transfer_basis,
  CASE WHEN is_whole AND e2e_ns IS NOT NULL THEN 'inferred' ELSE 'unknown' END AS outside_basis,
  CASE WHEN e2e_ns IS NOT NULL THEN 'inferred' ELSE 'unknown' END AS unattributed_basis,
  CASE WHEN e2e_ns IS NULL THEN 'unknown' ELSE e2e_basis END AS e2e_basis,
  CASE WHEN e2e_ns IS NULL THEN 0 ELSE greatest(0, -left_dc) END AS excess_ns
FROM parts
