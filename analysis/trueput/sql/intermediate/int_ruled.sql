-- One row per request with trueput's ruling of how it ended, before any objective is applied.
-- ruling: complete, rejected, failed, aborted, unfinished, not_sent, unknown or other_traffic.
-- A client's "ok" is a claim: the server's record, an abort in the engine, an empty or a short reply
-- overrule it. A client timeout stays failed/timeout even where the engine logs an abort.
-- Computed once. A long run has many events for each request, and the sides meet by their ids.
WITH said AS (
  SELECT
    q.*,
    coalesce(q.ignore_eos, l.ignore_eos) AS eos_ignored,
    coalesce(l.asked_output_tokens, q.asked_output_tokens) AS asked,
    p.min_output_tokens,
    regexp_matches(lower(q.c_error_kind),
      '^(bad request|content too large|request entity too large|payload too large|unprocessable( entity| content)?|too many requests|service unavailable)')
      AS refusal_phrase
  FROM int_requests AS q
  LEFT JOIN raw.load_sessions AS l
    ON l.run_id = q.run_id AND l.session IS NOT DISTINCT FROM q.session
  LEFT JOIN slo_policy AS p ON p.run_id = q.run_id
), ended AS (
  SELECT *,
    CASE
      WHEN NOT is_load THEN 'other_traffic'
      WHEN c_status = 'not_sent' THEN 'not_sent'
      WHEN c_status = 'timeout' THEN 'failed/timeout'
      WHEN s_bad_status = 'refused' OR (s_bad_status = 'http_error' AND refusal_status(http_status)) THEN 'rejected'
      WHEN s_bad_status IN ('aborted', 'cancelled') THEN 'aborted'
      WHEN s_bad_status = 'timeout' THEN 'failed/timeout'
      WHEN s_bad_status IN ('http_error', 'stream_error', 'empty', 'engine_lost') THEN 'failed/' || s_bad_status
      WHEN s_bad_status = 'running' THEN 'unfinished'
      WHEN s_bad_status IS NOT NULL AND s_bad_status <> 'not_sent' THEN 'failed/other'
      WHEN c_status = 'engine_lost' THEN 'failed/engine_lost'
      WHEN coalesce(e_aborted, false) THEN 'aborted'
      WHEN c_status = 'refused' OR (c_status = 'http_error' AND (refusal_status(http_status) OR (http_status IS NULL AND refusal_phrase)))
        THEN 'rejected'
      WHEN c_status IN ('http_error', 'stream_error', 'empty') THEN 'failed/' || c_status
      WHEN c_status IN ('aborted', 'cancelled') OR c_finish_reason = 'abort' THEN 'aborted'
      WHEN c_status = 'running' THEN 'unfinished'
      WHEN c_status = 'failed' OR coalesce(e_failed, false) THEN 'failed/other'
      -- the server's own record is there and does not say: the claim stays a claim
      WHEN c_status IN ('ok', 'finished') AND coalesce(s_silent, false) THEN 'unknown'
      WHEN c_status IN ('ok', 'finished') THEN 'complete'
      WHEN in_client THEN 'unknown'
      WHEN s_good_status IS NOT NULL THEN 'complete'
      WHEN coalesce(e_finished, false) THEN CASE WHEN e_finish_reason IN ('abort', 'error') THEN 'failed/other' ELSE 'complete' END
      ELSE 'unknown'
    END AS first_ruling
  FROM said
)
SELECT
  * EXCLUDE (first_ruling, refusal_phrase, stream_tokens),
  -- twice what one answer may have is of several, of which no engine tells the longest
  CASE WHEN in_engine OR asked IS NULL OR asked < 2 OR output_tokens < 2 * asked THEN stream_tokens END AS stream_tokens,
  CASE
    WHEN first_ruling <> 'complete' THEN split_part(first_ruling, '/', 1)
    WHEN output_tokens = 0 THEN 'failed'
    WHEN eos_ignored AND asked IS NOT NULL AND output_tokens < asked THEN 'failed'
    WHEN min_output_tokens IS NOT NULL AND output_tokens < min_output_tokens THEN 'failed'
    ELSE 'complete'
  END AS ruling,
  CASE
    WHEN starts_with(first_ruling, 'failed/') THEN split_part(first_ruling, '/', 2)
    WHEN first_ruling <> 'complete' THEN NULL
    WHEN output_tokens = 0 THEN 'empty'
    WHEN eos_ignored AND asked IS NOT NULL AND output_tokens < asked THEN 'short_output'
    WHEN min_output_tokens IS NOT NULL AND output_tokens < min_output_tokens THEN 'short_output'
  END AS failure_kind
FROM ended
