-- One row per complete request of the load that a client timed, with what the engine timed of it.
-- Spans are floating, so that nonsense in a file cannot overflow. slack_ns is what a client may be
-- short of the engine: 5 ms, and two steps, since a client may stop its clock at the last token that
-- has content.
SELECT
  q.run_id, q.session, q.output_tokens,
  CAST(q.e2e_ns AS DOUBLE) AS e2e_ns,
  CAST(q.ttft_ns AS DOUBLE) AS ttft_ns,
  CAST(list_sum(q.gaps_ns) AS DOUBLE) AS gaps_ns,
  len(q.gaps_ns) AS gaps,
  CAST(q.c_sent_at_ns AS DOUBLE) AS sent_ns,
  CAST(q.ended_at_ns AS DOUBLE) AS ended_ns,
  CAST(e.arrived_at_ns AS DOUBLE) AS arrived_ns,
  coalesce(CAST(e.e2e_ns AS DOUBLE),
    CAST(e.queue_ns AS DOUBLE) + CAST(e.prefill_ns AS DOUBLE) + CAST(e.decode_ns AS DOUBLE)) AS engine_e2e_ns,
  coalesce(CAST(e.ttft_ns AS DOUBLE), CAST(e.queue_ns AS DOUBLE) + CAST(e.prefill_ns AS DOUBLE)) AS engine_ttft_ns,
  5e6 + coalesce(2 * ratio(e.decode_ns, greatest(q.output_tokens - 1, 1)), 0) AS slack_ns
FROM int_ruled AS q
LEFT JOIN int_engine_requests AS e ON e.run_id = q.run_id AND e.request_id = q.request_id
WHERE q.in_client AND q.is_load AND q.ruling = 'complete'
