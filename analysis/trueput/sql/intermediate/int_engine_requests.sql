-- One row per request that an engine saw, by the id a client can know.
-- Formula: a span's own figures come before those of log lines.
-- Log lines give instants to the second: *_is_exact says that a span gave it.
-- sequences: answers that the request asked for (n), by the children that the engine numbered (`1_cmpl-...` is
-- the second of them): at least so many, since of ten and more the ids in order of text do not tell the last.
-- stream_tokens: of the longest answer, which the request's times are of. It and the sum, output_tokens, are NULL
-- where a span of one is missing.
-- Null rule: what neither a span nor an event says stays NULL. Abort without an end line has none.
SELECT
  coalesce(s.run_id, g.run_id) AS run_id,
  coalesce(s.request_id, g.request_id) AS request_id,
  greatest(s.engine_request_id, g.engine_request_id) AS engine_request_id,
  s.replica,
  coalesce(s.arrived_at_ns, g.arrived_at_ns) AS arrived_at_ns,
  g.queued_at_ns, g.scheduled_at_ns,
  coalesce(g.first_token_at_ns, s.first_token_at_ns) AS first_token_at_ns,
  coalesce(s.ended_at_ns, g.ended_at_ns) AS ended_at_ns,
  coalesce(g.finished_at_ns, CASE WHEN s.was_finished THEN s.ended_at_ns END) AS finished_at_ns,
  s.run_id IS NOT NULL AS has_span,
  s.arrived_at_ns IS NOT NULL AS arrival_is_exact, s.ended_at_ns IS NOT NULL AS end_is_exact,
  coalesce(g.was_received, false) AS was_received,
  s.run_id IS NOT NULL OR coalesce(g.was_admitted, false) AS was_admitted,
  coalesce(g.was_aborted, false) OR coalesce(s.was_aborted, false) AS was_aborted,
  coalesce(g.was_failed, false) AS was_failed,
  coalesce(g.was_finished, false) OR coalesce(s.was_finished, false) AS was_finished,
  g.preempted_events,
  greatest(s.asked_output_tokens, g.asked_output_tokens) AS asked_output_tokens,
  greatest(s.prompt_tokens, g.prompt_tokens) AS prompt_tokens,
  s.cached_prompt_tokens,
  CASE WHEN s.counted_spans < greatest(g.logged_sequences, s.sequences) THEN NULL ELSE s.output_tokens END AS output_tokens,
  greatest(g.logged_sequences, s.sequences) AS sequences,
  CASE WHEN s.counted_spans < greatest(g.logged_sequences, s.sequences) THEN NULL
    WHEN greatest(g.logged_sequences, s.sequences) > 1 THEN s.longest_tokens ELSE s.output_tokens END AS stream_tokens,
  s.queue_ns, s.prefill_ns, s.decode_ns, s.ttft_ns, s.e2e_ns,
  s.kv_transfer_ns, s.preemptions,
  greatest(s.finish_reason, g.finish_reason) AS finish_reason
FROM (
  SELECT *, child_number(engine_request_id) + 1 AS logged_sequences FROM int_engine_logged
) AS g
FULL JOIN int_engine_spans AS s ON s.run_id = g.run_id AND s.request_id = g.request_id
