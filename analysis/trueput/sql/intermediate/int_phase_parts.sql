-- One row per request: what is known of each phase before the parts are made to add up.
-- Preemption waits and recompute lie inside the engine's own prefill (before the first token) and
-- decode (after it), and are taken out of them; an inferred wait is never longer than the phase it
-- lies in.
WITH known AS (
  SELECT
    q.run_id, q.session, q.request_id, q.sent_at_ns, q.is_load, q.ruling, q.e2e_ns, q.e2e_rank, q.phase_rank,
    not_negative(q.queue_ns) AS queue_ns,
    not_negative(q.prefill_ns) AS engine_prefill_ns,
    not_negative(q.decode_ns) AS engine_decode_ns,
    q.kv_transfer_ns,
    CASE WHEN q.v_requeue_ns IS NOT NULL THEN q.v_rank
      WHEN x.all_preemptions = 0 THEN basis_rank('reported') ELSE basis_rank('unknown') END AS recompute_rank,
    coalesce(q.v_requeue_before_ns, CASE WHEN x.all_preemptions = 0 THEN 0 END) AS requeue_before,
    coalesce(q.v_recompute_before_ns, CASE WHEN x.all_preemptions = 0 THEN 0 END) AS recompute_before,
    coalesce(q.v_requeue_ns - q.v_requeue_before_ns, CASE WHEN x.all_preemptions = 0 THEN 0 END) AS requeue_after,
    coalesce(q.v_recompute_ns - q.v_recompute_before_ns, CASE WHEN x.all_preemptions = 0 THEN 0 END) AS recompute_after
  FROM int_ruled AS q
  LEFT JOIN int_all_preemptions AS x ON x.run_id = q.run_id
), capped AS (
  SELECT *,
    part_within(requeue_before, coalesce(engine_prefill_ns, 0)) AS rb,
    part_within(recompute_before, coalesce(engine_prefill_ns, 0) - requeue_before) AS cb,
    part_within(requeue_after, coalesce(engine_decode_ns, 0)) AS ra,
    part_within(recompute_after, coalesce(engine_decode_ns, 0) - requeue_after) AS ca
  FROM known
)
SELECT
  run_id, session, request_id, sent_at_ns, is_load, ruling, e2e_ns, e2e_rank, phase_rank, recompute_rank,
  queue_ns, kv_transfer_ns,
  engine_prefill_ns - coalesce(rb, 0) - coalesce(cb, 0) AS prefill_ns,
  engine_decode_ns - coalesce(ra, 0) - coalesce(ca, 0) AS decode_ns,
  CASE WHEN engine_prefill_ns IS NOT NULL OR engine_decode_ns IS NOT NULL THEN rb + ra END AS requeue_ns,
  CASE WHEN engine_prefill_ns IS NOT NULL OR engine_decode_ns IS NOT NULL THEN cb + ca END AS recompute_ns
FROM capped
