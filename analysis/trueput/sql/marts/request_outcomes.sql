-- One row per planned request, and one per request of other traffic.
-- outcome partitions the planned requests; it is NULL for a complete request of a run without an
-- objective, which is neither good nor late. Planned requests without any record are rows too
-- (not_sent; unknown where only finished requests leave a record), and so are refusals that only an access line tells of (rejected, no id).
SELECT
  run_id, session, request_id, row_ix, replica, outcome, failure_kind, missed_slo, complete,
  ttft_ns, tpot_ns, itl_p99_ns, longest_gap_ns, e2e_ns, client_delay_ns, client_queue_ns, prompt_tokens,
  client_prompt_tokens, cached_prompt_tokens, output_tokens, asked_output_tokens, sent_at_ns, ended_at_ns,
  preemption_count, client_status, server_status, engine_status, slo_not_applicable
FROM int_outcomes
