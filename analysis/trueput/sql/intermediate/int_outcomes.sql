-- One row per planned request and per request of other traffic, with its outcome; the body of the
-- view request_outcomes, computed once because most other views read it.
-- outcome partitions the planned requests; it is NULL for a complete request of a run without an
-- objective, which is neither good nor late. Planned requests without any record are rows too
-- (not_sent; unknown where only finished requests leave a record), and so are refusals that only an access line tells of
-- (rejected, or other_traffic beside a client; no id).
-- preemption_count: what was found for the request, or its engine said of it; 0 where a counter that covers all
-- of the run's files counted none.
-- placed_at_ns is where one without a send stands in time: when it was planned, or when it was refused.
SELECT
  q.run_id, session, request_id, row_ix, replica, label, outcome, failure_kind, missed_slo,
  nullif(ruling, 'unknown') = 'complete' AS complete,
  ttft_ns, tpot_ns, itl_p99_ns, longest_gap_ns, e2e_ns, client_delay_ns, client_queue_ns,
  prompt_tokens, c_prompt_tokens AS client_prompt_tokens, cached_prompt_tokens, output_tokens, asked AS asked_output_tokens,
  CASE WHEN ruling <> 'not_sent' THEN sent_at_ns END AS sent_at_ns,
  CASE WHEN ruling = 'not_sent' THEN scheduled_at_ns END AS placed_at_ns, ended_at_ns,
  coalesce(v_preemptions, preemptions, CASE WHEN a.counted = 0 THEN 0 END) AS preemption_count,
  http_status, c_status AS client_status,
  coalesce(s_bad_status, s_good_status) AS server_status,
  CASE WHEN e_aborted THEN 'aborted' WHEN e_finished THEN 'finished' WHEN e_failed THEN 'failed' END AS engine_status,
  has_undefined_test AND ruling = 'complete' AND slo IS NOT NULL AS slo_not_applicable
FROM int_judged AS q
LEFT JOIN int_all_preemptions AS a ON a.run_id = q.run_id
UNION ALL BY NAME
SELECT p.run_id, p.session,
  CASE WHEN missing.row_number >= p.rows_missing THEN 'rejected' WHEN x.run_id IS NULL THEN 'not_sent' ELSE 'unknown' END AS outcome,
  CASE WHEN missing.row_number >= p.rows_missing OR x.run_id IS NULL THEN false END AS complete,
  CASE WHEN missing.row_number >= p.rows_missing THEN p.refused_at_ns[missing.row_number - p.rows_missing + 1] END AS placed_at_ns
FROM int_planned AS p
LEFT JOIN int_finished_only AS x ON x.run_id = p.run_id,
  unnest(range(coalesce(p.rows_missing, 0) + p.refused_without_id)) AS missing(row_number)
UNION ALL BY NAME
SELECT run_id, 'other_traffic' AS outcome, false AS complete, at_ns AS placed_at_ns, http_status
FROM int_refused_others
