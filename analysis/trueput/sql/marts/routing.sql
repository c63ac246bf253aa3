-- One row per run and replica: how warm and cold requests fared there.
-- Warm: prompt tokens were found in the prefix cache. A warm request is later when its queue +
-- prefill exceeds the median of cold requests on other replicas that arrived within 5 s and whose
-- prompts are within 10 % of its length; without such a peer it is not compared. Requests are those
-- of the load whose send lies in the window.
WITH timed AS (
  SELECT o.run_id, o.replica, o.request_id, o.sent_at_ns, o.prompt_tokens,
    o.cached_prompt_tokens > 0 AS is_warm, p.queue_ns, p.prefill_ns,
    p.queue_ns + p.prefill_ns AS to_decode_ns
  FROM request_outcomes AS o
  JOIN request_phases AS p ON p.run_id = o.run_id AND p.request_id = o.request_id
  LEFT JOIN int_windows AS w ON w.run_id = o.run_id AND w.session IS NOT DISTINCT FROM o.session
  WHERE o.replica IS NOT NULL AND o.outcome IS DISTINCT FROM 'other_traffic'
    AND is_inside(w.window_rule, o.sent_at_ns, w.from_ns, w.until_ns)
), compared AS (
  SELECT w.run_id, w.replica, w.request_id, any_value(w.to_decode_ns) AS mine, median(c.to_decode_ns) AS theirs
  FROM timed AS w
  JOIN timed AS c ON c.run_id = w.run_id AND c.replica <> w.replica AND NOT c.is_warm
    AND abs(c.sent_at_ns - w.sent_at_ns) <= 5000000000
    AND abs(c.prompt_tokens - w.prompt_tokens) * 10 <= w.prompt_tokens
  WHERE w.is_warm AND w.to_decode_ns IS NOT NULL AND c.to_decode_ns IS NOT NULL
  GROUP BY w.run_id, w.replica, w.request_id
), later AS (
  SELECT run_id, replica, count(*) FILTER (mine > theirs) AS later_requests, count(*) AS compared_requests
  FROM compared GROUP BY run_id, replica
)
SELECT
  t.run_id, t.replica, count(*) AS requests, count(*) FILTER (is_warm) AS warm_requests,
  CAST(quantile_disc(queue_ns, 0.5) AS BIGINT) AS queue_ns_p50,
  CAST(quantile_disc(prefill_ns, 0.5) AS BIGINT) AS prefill_ns_p50,
  CAST(quantile_disc(to_decode_ns, 0.5) FILTER (is_warm) AS BIGINT) AS time_to_decode_warm_ns_p50,
  CAST(quantile_disc(to_decode_ns, 0.5) FILTER (NOT is_warm) AS BIGINT) AS time_to_decode_cold_ns_p50,
  coalesce(any_value(l.later_requests), 0) AS warm_but_later_requests,
  coalesce(any_value(l.compared_requests), 0) AS compared_requests
FROM timed AS t
LEFT JOIN later AS l ON l.run_id = t.run_id AND l.replica = t.replica
GROUP BY t.run_id, t.replica
