-- One row per complete request of the load that a client timed, with what the engine timed of it.
-- Spans are floating, so that nonsense in a file cannot overflow. slack_ns is what a client may be
-- short of the engine: 5 ms, and two steps, since a client may stop its clock at the last token that
-- has content.
-- sequences: answers that the request asked for (n), each with a first token of its own: by the children
-- that the engine numbered (`1_cmpl-...` is the second of them), at least by the output limit of one.
-- NULL where nothing says, or where ids in order of text do not tell which number is the last.
SELECT
  q.run_id, q.session, q.output_tokens,
  CASE WHEN e.engine_request_id >= '9_' AND e.engine_request_id < '9`' THEN NULL
    WHEN e.engine_request_id >= '0' AND e.engine_request_id < ':' AND regexp_matches(e.engine_request_id, '^\d_') THEN
      CAST(left(e.engine_request_id, 1) AS BIGINT) + 1
    WHEN q.output_tokens > q.asked THEN CAST(ceil(ratio(q.output_tokens, q.asked)) AS BIGINT)
    WHEN e.engine_request_id IS NOT NULL OR (q.eos_ignored AND q.output_tokens = q.asked) THEN 1
  END AS sequences,
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
  5e6 + coalesce(2 * ratio(e.decode_ns, greatest(coalesce(q.stream_tokens, q.output_tokens) - 1, 1)), 0) AS slack_ns
FROM int_ruled AS q
LEFT JOIN int_engine_requests AS e ON e.run_id = q.run_id AND e.request_id = q.request_id
WHERE q.in_client AND q.is_load AND q.ruling = 'complete'
