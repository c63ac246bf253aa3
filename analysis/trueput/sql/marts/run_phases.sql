-- One row per run and phase: time of the run's own requests in it, and its share of their wall time.
-- The requests are those whose send lies in the window, with all of their time.
-- covered_requests_ratio says for how many of those that were sent the phase is known; requests without a known wall
-- time add nothing to the sums, and count here.
WITH summed AS (
  SELECT
    p.run_id, sum(e2e_ns) AS whole_ns,
    sum(queue_ns) AS q, count(queue_ns) AS qn, max(queue_rank) AS qb,
    sum(prefill_ns) AS p, count(prefill_ns) AS pn, max(prefill_rank) AS pb,
    sum(decode_ns) AS d, count(decode_ns) AS dn, max(decode_rank) AS db,
    sum(requeue_ns) AS w, count(requeue_ns) AS wn, max(requeue_rank) AS wb,
    sum(recompute_ns) AS c, count(recompute_ns) AS cn, max(recompute_rank) AS cb,
    sum(kv_transfer_ns) AS k, count(kv_transfer_ns) AS kn, max(kv_transfer_rank) AS kb,
    sum(outside_ns) AS o, count(outside_ns) AS n_o, max(outside_rank) AS ob,
    sum(unattributed_ns) AS u, count(unattributed_ns) AS un, max(unattributed_rank) AS ub
  FROM int_phases AS p
  LEFT JOIN (FROM int_windows WHERE NOT window_is_all()) AS w
    ON w.run_id = p.run_id AND w.session IS NOT DISTINCT FROM p.session
  WHERE p.is_load AND p.e2e_ns IS NOT NULL
    AND (window_is_all() OR is_inside(w.window_rule, p.sent_at_ns, w.from_ns, w.until_ns))
  GROUP BY p.run_id
), sent AS (
  SELECT q.run_id, count(*) AS requests
  FROM int_ruled AS q
  LEFT JOIN (FROM int_windows WHERE NOT window_is_all()) AS w
    ON w.run_id = q.run_id AND w.session IS NOT DISTINCT FROM q.session
  WHERE q.is_load AND q.ruling <> 'not_sent'
    AND (window_is_all() OR is_inside(w.window_rule, q.sent_at_ns, w.from_ns, w.until_ns))
  GROUP BY q.run_id
), long AS (
  SELECT s.run_id, n.requests, whole_ns, unnest([
    {'phase': 'queue', 'time_ns': q, 'known': qn, 'rank': qb},
    {'phase': 'prefill', 'time_ns': p, 'known': pn, 'rank': pb},
    {'phase': 'decode', 'time_ns': d, 'known': dn, 'rank': db},
    {'phase': 'requeue', 'time_ns': w, 'known': wn, 'rank': wb},
    {'phase': 'recompute', 'time_ns': c, 'known': cn, 'rank': cb},
    {'phase': 'kv_transfer', 'time_ns': k, 'known': kn, 'rank': kb},
    {'phase': 'outside', 'time_ns': o, 'known': n_o, 'rank': ob},
    {'phase': 'unattributed', 'time_ns': u, 'known': un, 'rank': ub}
  ]) AS part
  FROM summed AS s
  JOIN sent AS n ON n.run_id = s.run_id
)
SELECT
  run_id, part.phase AS phase, CAST(part.time_ns AS BIGINT) AS time_ns,
  ratio(part.time_ns, whole_ns) AS share_ratio,
  coalesce(basis_name(part.rank), 'unknown') AS basis,
  ratio(part.known, requests) AS covered_requests_ratio
FROM long
