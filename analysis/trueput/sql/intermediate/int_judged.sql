-- One row per request with its latencies, its ruling and what the objective says of it.
-- TPOT is tested in integers: (last - first) <= limit x (tokens - 1), tokens of the longest of n answers. Limits are inclusive.
-- A limit on a metric that is undefined (TPOT of a one-token reply) is "not applicable" and counted
-- apart; a metric that was not observed leaves the request unknown: neither good nor late.
-- Gaps are known where they make up the time from the first chunk to the end. What is left over, all
-- of it where no gap was kept, may hide a gap as long as itself: beyond the limit, and longer than
-- what a client may wait after its last chunk, the test is unknown.
-- The limits of a request's class stand in place of the run's; it is of one class at most, and of
-- none where its label or prompt length is not known.
-- Times that cannot be, a first token before the send or over 1 ms after the end, are unknown.
WITH possible AS (
  SELECT * REPLACE (CASE WHEN NOT is_impossible THEN ttft_ns END AS ttft_ns, CASE WHEN NOT is_impossible THEN e2e_ns END AS e2e_ns)
  FROM (
    SELECT *, coalesce(ttft_ns < 0, false) OR coalesce(e2e_ns < 0, false) OR coalesce(e2e_ns < ttft_ns - 1000000, false) AS is_impossible
    FROM int_ruled)
), timed AS (
  SELECT
    q.* EXCLUDE (ttft_ns, e2e_ns, is_impossible),
    p.slo, p.undefined_passes,
    coalesce(k.ttft_limit_ns, p.ttft_limit_ns) AS ttft_limit_ns,
    coalesce(k.tpot_limit_ns, p.tpot_limit_ns) AS tpot_limit_ns,
    coalesce(k.itl_p99_limit_ns, p.itl_p99_limit_ns) AS itl_p99_limit_ns,
    coalesce(k.e2e_limit_ns, p.e2e_limit_ns) AS e2e_limit_ns,
    q.ttft_ns + CASE WHEN p.measured_from = 'scheduled' THEN coalesce(q.client_delay_ns, 0) ELSE 0 END AS ttft_ns,
    q.e2e_ns + CASE WHEN p.measured_from = 'scheduled' THEN coalesce(q.client_delay_ns, 0) ELSE 0 END AS e2e_ns,
    CASE WHEN coalesce(q.stream_tokens, q.output_tokens) > 1 AND NOT q.is_impossible
      THEN coalesce(CASE WHEN q.e2e_ns < q.ttft_ns THEN 0 ELSE q.e2e_ns - q.ttft_ns END, q.decode_ns) END AS decode_span_ns,
    CASE WHEN len(q.gaps_ns) > 0
      THEN list_sort(q.gaps_ns)[CAST(ceil(0.99 * len(q.gaps_ns)) AS BIGINT)] END AS itl_p99_ns,
    list_max(q.gaps_ns) AS longest_gap_ns,
    decode_span_ns - coalesce(list_sum(q.gaps_ns), 0) AS rest_ns,
    CASE WHEN len(q.gaps_ns) > 0 THEN gaps_slack(decode_span_ns, len(q.gaps_ns)) ELSE 0 END AS rest_slack_ns
  FROM possible AS q
  LEFT JOIN slo_policy AS p ON p.run_id = q.run_id
  LEFT JOIN slo_classes AS k ON (k.label IS NULL OR k.label = q.label)
    AND (k.prompt_from IS NULL OR q.prompt_tokens >= k.prompt_from)
    AND (k.prompt_to IS NULL OR q.prompt_tokens < k.prompt_to)
), tested AS (
  SELECT *,
    CASE WHEN stream_tokens > 1 THEN decode_span_ns // (stream_tokens - 1) END AS tpot_ns,
    CASE WHEN ttft_limit_ns IS NULL THEN 'met'
      WHEN ttft_ns IS NULL THEN 'unknown'
      WHEN ttft_ns <= ttft_limit_ns THEN 'met' ELSE 'missed' END AS ttft_test,
    CASE WHEN tpot_limit_ns IS NULL THEN 'met'
      WHEN stream_tokens <= 1 THEN 'undefined'
      WHEN decode_span_ns IS NULL OR stream_tokens IS NULL THEN 'unknown'
      WHEN decode_span_ns <= CAST(tpot_limit_ns AS HUGEINT) * (stream_tokens - 1) THEN 'met' ELSE 'missed' END AS tpot_test,
    CASE WHEN itl_p99_limit_ns IS NULL THEN 'met'
      WHEN stream_tokens <= 1 THEN 'undefined'
      WHEN itl_p99_ns > itl_p99_limit_ns THEN 'missed'
      WHEN rest_ns > greatest(itl_p99_limit_ns, rest_slack_ns) THEN 'unknown'
      WHEN gaps_ns IS NULL OR rest_ns IS NULL AND itl_p99_ns IS NULL THEN 'unknown' ELSE 'met' END AS itl_p99_test,
    CASE WHEN e2e_limit_ns IS NULL THEN 'met'
      WHEN e2e_ns IS NULL THEN 'unknown'
      WHEN e2e_ns <= e2e_limit_ns THEN 'met' ELSE 'missed' END AS e2e_test
  FROM timed
), counted AS (
  SELECT *,
    list_filter([
      CASE WHEN ttft_test = 'missed' THEN 'ttft' END, CASE WHEN tpot_test = 'missed' THEN 'tpot' END,
      CASE WHEN itl_p99_test = 'missed' THEN 'itl_p99' END, CASE WHEN e2e_test = 'missed' THEN 'e2e' END
    ], lambda name: name IS NOT NULL) AS missed,
    'unknown' IN (ttft_test, tpot_test, itl_p99_test, e2e_test) AS has_unknown_test,
    'undefined' IN (ttft_test, tpot_test, itl_p99_test, e2e_test) AS has_undefined_test
  FROM tested
)
SELECT
  * EXCLUDE (missed, rest_ns, rest_slack_ns, ttft_test, tpot_test, itl_p99_test, e2e_test),
  CASE
    WHEN ruling <> 'complete' THEN ruling
    WHEN slo IS NULL THEN NULL
    WHEN len(missed) > 0 THEN 'late'
    WHEN has_unknown_test THEN 'unknown'
    WHEN has_undefined_test AND NOT undefined_passes THEN 'late'
    ELSE 'good'
  END AS outcome,
  CASE
    WHEN ruling <> 'complete' OR slo IS NULL THEN NULL
    WHEN len(missed) > 0 THEN array_to_string(missed, ',')
    WHEN has_undefined_test AND NOT undefined_passes AND NOT has_unknown_test THEN 'undefined'
  END AS missed_slo
FROM counted
