-- One row per request of a run, what each side said kept apart: client (c_), engine (e_), server (s_).
-- What preemption cost it (v_) stands beside.
-- is_load: the request belongs to the measured load. With a client that is what the client sent;
-- without one, what the servers recorded; without those, what the engine saw.
WITH clients AS (
  SELECT * FROM stg_records WHERE vantage = 'client'
)
SELECT
  coalesce(c.run_id, e.run_id, s.run_id) AS run_id,
  coalesce(c.session, s.session) AS session,
  coalesce(c.request_id, e.request_id, s.request_id) AS request_id,
  c.row_ix,
  e.engine_request_id,
  coalesce(c.replica, s.replica, e.replica) AS replica,
  coalesce(c.label, s.label) AS label,
  c.run_id IS NOT NULL AS in_client,
  e.run_id IS NOT NULL AS in_engine,
  s.run_id IS NOT NULL AS in_server,
  CASE
    WHEN f.has_client THEN c.run_id IS NOT NULL AND c.traffic = 'load'
    WHEN f.has_server THEN s.run_id IS NOT NULL AND s.traffic = 'load'
    ELSE e.run_id IS NOT NULL AND NOT starts_with(e.request_id, 'tokenize-')
  END AS is_load,
  c.scheduled_at_ns, c.sent_at_ns AS c_sent_at_ns,
  coalesce(c.sent_at_ns, s.arrived_at_ns, e.arrived_at_ns) AS sent_at_ns,
  coalesce(c.first_token_at_ns, s.first_token_at_ns, e.first_token_at_ns) AS first_token_at_ns,
  -- a stream that broke has no end of its own: its last chunk is the last sign of it
  coalesce(c.ended_at_ns, c.sent_at_ns + c.e2e_ns, c.last_token_at_ns,
    c.first_token_at_ns + CAST(list_sum(c.gaps_ns) AS BIGINT), s.ended_at_ns, e.ended_at_ns) AS ended_at_ns,
  -- when a client last knew it to be under way, where that is not when it ended
  CASE WHEN c.run_id IS NOT NULL AND c.status IS DISTINCT FROM 'not_sent' AND coalesce(c.ended_at_ns, c.e2e_ns) IS NULL
    THEN coalesce(c.last_token_at_ns, c.first_token_at_ns + CAST(list_sum(c.gaps_ns) AS BIGINT), c.first_token_at_ns, c.sent_at_ns)
    END AS c_unended_at_ns,
  e.arrived_at_ns AS e_arrived_at_ns, e.queued_at_ns, e.scheduled_at_ns AS e_scheduled_at_ns,
  e.first_token_at_ns AS e_first_token_at_ns, e.ended_at_ns AS e_ended_at_ns, e.finished_at_ns,
  coalesce(e.arrival_is_exact, false) AS e_arrival_is_exact, coalesce(e.end_is_exact, false) AS e_end_is_exact,
  -- the outermost vantage that timed the request rules TTFT and end-to-end time
  real_span(CASE WHEN c.run_id IS NOT NULL THEN coalesce(c.ttft_ns, c.first_token_at_ns - c.sent_at_ns)
    WHEN s.run_id IS NOT NULL THEN coalesce(s.ttft_ns, s.first_token_at_ns - s.arrived_at_ns)
    ELSE coalesce(e.ttft_ns, e.first_token_at_ns - e.arrived_at_ns) END) AS ttft_ns,
  real_span(CASE WHEN c.run_id IS NOT NULL THEN coalesce(c.e2e_ns, c.ended_at_ns - c.sent_at_ns)
    WHEN s.run_id IS NOT NULL THEN coalesce(s.e2e_ns, s.ended_at_ns - s.arrived_at_ns)
    ELSE coalesce(e.e2e_ns, e.finished_at_ns - e.arrived_at_ns) END) AS e2e_ns,
  CASE WHEN c.run_id IS NULL AND s.run_id IS NULL AND e.e2e_ns IS NOT NULL
    THEN basis_rank('reported') ELSE basis_rank('measured') END AS e2e_rank,
  c.sent_at_ns - c.scheduled_at_ns AS client_delay_ns,
  c.client_queue_ns,
  coalesce(e.queue_ns, e.e2e_queue_ns, s.queue_ns, c.queue_ns) AS queue_ns,
  coalesce(e.prefill_ns, e.e2e_prefill_ns, s.prefill_ns, c.prefill_ns) AS prefill_ns,
  coalesce(e.decode_ns, e.e2e_decode_ns, s.decode_ns, c.decode_ns) AS decode_ns,
  CASE WHEN e.e2e_queue_ns IS NOT NULL AND e.queue_ns IS NULL
    THEN basis_rank('measured') ELSE basis_rank('reported') END AS phase_rank,
  coalesce(e.kv_transfer_ns, s.kv_transfer_ns, c.kv_transfer_ns) AS kv_transfer_ns,
  c.gaps_ns,
  coalesce(e.prompt_tokens, s.prompt_tokens, c.prompt_tokens) AS prompt_tokens,
  -- how far the client counts otherwise than the engine
  CASE WHEN coalesce(e.prompt_tokens, s.prompt_tokens) IS NOT NULL THEN c.prompt_tokens END AS c_prompt_tokens,
  coalesce(e.cached_prompt_tokens, s.cached_prompt_tokens, c.cached_prompt_tokens) AS cached_prompt_tokens,
  -- engine's usage before client's usage before client's re-tokenising
  coalesce(e.output_tokens, s.output_tokens, c.output_tokens) AS output_tokens,
  -- of the answer that its times are of; a client that was sent several tells their sum, or one of them
  CASE WHEN e.sequences > 1 THEN e.stream_tokens ELSE coalesce(e.output_tokens, s.output_tokens, c.output_tokens) END AS stream_tokens,
  coalesce(c.asked_output_tokens, s.asked_output_tokens, e.asked_output_tokens) AS asked_output_tokens,
  coalesce(c.ignore_eos, s.ignore_eos) AS ignore_eos,
  c.status AS c_status, coalesce(c.http_status, s.http_status) AS http_status, c.error_kind AS c_error_kind,
  c.finish_reason AS c_finish_reason,
  s.bad_status AS s_bad_status, s.good_status AS s_good_status,
  s.statuses_are_told AND s.bad_status IS NULL AND s.good_status IS NULL AS s_silent, s.error_kind AS s_error_kind,
  e.was_aborted AS e_aborted, e.was_finished AS e_finished, e.was_failed AS e_failed,
  e.finish_reason AS e_finish_reason,
  coalesce(e.preemptions, e.preempted_events) AS preemptions,
  v.preemptions AS v_preemptions, v.requeue_ns AS v_requeue_ns, v.recompute_ns AS v_recompute_ns,
  v.requeue_before_first_token_ns AS v_requeue_before_ns,
  v.recompute_before_first_token_ns AS v_recompute_before_ns, basis_rank(v.basis) AS v_rank
FROM clients AS c
FULL JOIN (
  SELECT *,
    scheduled_at_ns - coalesce(queued_at_ns, arrived_at_ns) AS e2e_queue_ns,
    first_token_at_ns - scheduled_at_ns AS e2e_prefill_ns,
    finished_at_ns - first_token_at_ns AS e2e_decode_ns
  FROM int_engine_requests
) AS e ON e.run_id = c.run_id AND e.request_id = c.request_id
FULL JOIN int_server_requests AS s
  ON s.run_id = coalesce(c.run_id, e.run_id) AND s.request_id = coalesce(c.request_id, e.request_id)
LEFT JOIN raw.request_recompute AS v
  ON v.run_id = coalesce(c.run_id, e.run_id, s.run_id)
  AND v.request_id = coalesce(c.request_id, e.request_id, s.request_id)
LEFT JOIN int_run_facts AS f ON f.run_id = coalesce(c.run_id, e.run_id, s.run_id)
