-- One row per request: its wall time cut into parts that add up exactly to e2e_ns; the body of the
-- view request_phases, with the rank of each basis in place of its name.
-- outside_ns is what lies in no engine phase; a request without any engine record is all
-- unattributed. Where the known parts exceed the whole, outside is 0 and the least certain part is
-- cut first: decode, then prefill, recompute, requeue, queue, transfer.
-- Null rule: a phase that was not observed is NULL, and so is its rank.
-- The cut parts are materialised: written into each other, these expressions grow to thousands.
WITH rooms AS (
  SELECT *,
    coalesce(e2e_ns, 9223372036854775807) - coalesce(kv_transfer_ns, 0) AS for_queue,
    for_queue - coalesce(queue_ns, 0) AS for_requeue,
    for_requeue - coalesce(requeue_ns, 0) AS for_recompute,
    for_recompute - coalesce(recompute_ns, 0) AS for_prefill,
    for_prefill - coalesce(prefill_ns, 0) AS for_decode,
    for_decode - coalesce(decode_ns, 0) AS left_ns
  FROM int_phase_parts
), cut AS MATERIALIZED (
  SELECT
    run_id, session, request_id, sent_at_ns, is_load, ruling, e2e_ns, e2e_rank, phase_rank, recompute_rank, left_ns,
    part_within(kv_transfer_ns, coalesce(e2e_ns, kv_transfer_ns)) AS kv,
    part_within(queue_ns, for_queue) AS q,
    part_within(requeue_ns, for_requeue) AS rq,
    part_within(recompute_ns, for_recompute) AS rc,
    part_within(prefill_ns, for_prefill) AS pf,
    part_within(decode_ns, for_decode) AS dc
  FROM rooms
), parts AS (
  SELECT *,
    q IS NOT NULL AND pf IS NOT NULL AND dc IS NOT NULL AS is_whole,
    e2e_ns - coalesce(kv, 0) - coalesce(q, 0) - coalesce(rq, 0) - coalesce(rc, 0) - coalesce(pf, 0)
      - coalesce(dc, 0) AS rest_ns
  FROM cut
)
SELECT
  run_id, session, request_id, sent_at_ns, is_load, ruling,
  q AS queue_ns, pf AS prefill_ns, dc AS decode_ns, rq AS requeue_ns, rc AS recompute_ns,
  kv AS kv_transfer_ns,
  CASE WHEN is_whole THEN rest_ns END AS outside_ns,
  CASE WHEN is_whole THEN CASE WHEN e2e_ns IS NOT NULL THEN 0 END ELSE rest_ns END AS unattributed_ns,
  e2e_ns,
  CASE WHEN q IS NOT NULL THEN phase_rank END AS queue_rank,
  CASE WHEN pf IS NOT NULL THEN CASE WHEN rq + rc > 0 THEN recompute_rank ELSE phase_rank END END AS prefill_rank,
  CASE WHEN dc IS NOT NULL THEN CASE WHEN rq + rc > 0 THEN recompute_rank ELSE phase_rank END END AS decode_rank,
  CASE WHEN rq IS NOT NULL THEN recompute_rank END AS requeue_rank,
  CASE WHEN rc IS NOT NULL THEN recompute_rank END AS recompute_rank,
  CASE WHEN kv IS NOT NULL THEN basis_rank('reported') END AS kv_transfer_rank,
  CASE WHEN is_whole AND e2e_ns IS NOT NULL THEN basis_rank('inferred') END AS outside_rank,
  CASE WHEN e2e_ns IS NOT NULL THEN basis_rank('inferred') END AS unattributed_rank,
  CASE WHEN e2e_ns IS NOT NULL THEN e2e_rank END AS e2e_rank,
  CASE WHEN e2e_ns IS NULL THEN 0 ELSE greatest(0, -left_ns) END AS excess_ns
FROM parts
