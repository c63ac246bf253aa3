-- One row per run and reason why its client's times cannot be: they contradict the engine's record of
-- the same requests, or each other. Wrong units are the usual cause.
-- What is tested holds for every right record, whatever the load: a request is in the client for
-- longer than in the engine; between the ends of two requests lies no more time than the engine saw;
-- parts are shorter than the whole, and gaps make it up. 2 % are left to clocks that run at other
-- rates, and a twentieth of the requests to wrong joins. A claimed mean is that of the client's own
-- rows: 1 % and 10 us are left to rounding.
WITH below AS (
  SELECT run_id, count(*) AS joined,
    count(*) FILTER (engine_e2e_ns > 1.02 * e2e_ns + slack_ns OR engine_ttft_ns > 1.02 * ttft_ns + 5e6) AS shorter,
    median(engine_e2e_ns) AS engine_e2e_ns, median(e2e_ns) AS e2e_ns,
    median(engine_ttft_ns) AS engine_ttft_ns, median(ttft_ns) AS ttft_ns
  FROM int_client_engine
  WHERE (engine_e2e_ns IS NOT NULL AND e2e_ns IS NOT NULL) OR (engine_ttft_ns IS NOT NULL AND ttft_ns IS NOT NULL)
  GROUP BY run_id
), spread AS (
  SELECT run_id,
    max(arrived_ns) - min(arrived_ns) AS engine_ns,
    max(sent_ns) - min(ended_ns) AS least_ns,
    max(ended_ns) - min(sent_ns) AS most_ns
  FROM int_client_engine
  WHERE sent_ns IS NOT NULL AND ended_ns IS NOT NULL AND arrived_ns IS NOT NULL
  GROUP BY run_id
), scraped AS (
  -- counters that grew by the whole load while they were scraped: it ended between those scrapes
  SELECT c.run_id, c.least_ns, b.engine_ns
  FROM (
    SELECT run_id, count(*) AS requests, max(sent_ns) - min(ended_ns) AS least_ns
    FROM int_client_engine GROUP BY run_id
  ) AS c
  JOIN (
    SELECT run_id, CAST(max(at_ns) AS DOUBLE) - min(at_ns) AS engine_ns FROM int_busy_scrapes GROUP BY run_id
  ) AS b ON b.run_id = c.run_id
  JOIN (
    SELECT run_id, sum(growth) AS finished FROM int_counter_totals
    WHERE metric = 'vllm:request_success_total' GROUP BY run_id
  ) AS f ON f.run_id = c.run_id AND f.finished >= c.requests
), timed AS (
  SELECT run_id, 'vllm:e2e_request_latency_seconds' AS metric, 1.02 * e2e_ns + slack_ns AS most_ns FROM int_client_engine
  UNION ALL
  SELECT run_id, 'vllm:time_to_first_token_seconds', 1.02 * ttft_ns + 5e6 FROM int_client_engine
), complete AS (
  SELECT run_id, metric, count(*) AS requests FROM timed GROUP BY run_id, metric HAVING count(most_ns) = count(*)
), grown AS (
  SELECT run_id, metric, le, sum(growth) AS observations
  FROM int_counters WHERE kind = 'histogram_bucket'
  GROUP BY run_id, metric, le
), longer AS (
  -- of the load's requests at least so many took longer than le; the rest may be other traffic
  SELECT c.run_id, c.metric, c.requests, g.le,
    a.observations - g.observations - greatest(0, a.observations - c.requests) AS engine_longer
  FROM complete AS c
  JOIN grown AS g ON g.run_id = c.run_id AND g.metric = c.metric AND NOT isinf(g.le)
  JOIN grown AS a ON a.run_id = c.run_id AND a.metric = c.metric AND isinf(a.le)
  WHERE engine_longer * 2 > c.requests
  QUALIFY row_number() OVER (PARTITION BY c.run_id, c.metric ORDER BY g.le DESC) = 1
), counted AS (
  SELECT n.run_id, n.metric, n.requests, n.le, n.engine_longer,
    count(*) FILTER (t.most_ns > n.le * 1e9) AS client_longer
  FROM longer AS n
  JOIN timed AS t ON t.run_id = n.run_id AND t.metric = n.metric
  GROUP BY n.run_id, n.metric, n.requests, n.le, n.engine_longer
), loads AS (
  SELECT run_id, session, count(*) AS requests,
    count(*) FILTER (ttft_ns > 1.02 * e2e_ns + 5e6 OR ttft_ns + gaps_ns > 1.02 * e2e_ns + 5e7) AS broken,
    count(*) FILTER (gaps > 0 AND e2e_ns - ttft_ns - gaps_ns > gaps_slack(e2e_ns - ttft_ns, gaps)) AS gapped,
    median(e2e_ns - ttft_ns) FILTER (gaps > 0) AS after_ns, median(gaps_ns) FILTER (gaps > 0) AS gaps_ns,
    sum(e2e_ns) AS sum_ns, avg(e2e_ns) AS e2e_ns, avg(ttft_ns) AS ttft_ns,
    max(sent_ns + e2e_ns) - min(sent_ns) AS whole_ns, max(sent_ns) - min(sent_ns) AS sends_ns,
    count(sent_ns + e2e_ns) = count(*) AS is_timed
  FROM int_client_engine GROUP BY run_id, session
), own AS (
  -- the requests that the client counts as completed, as it timed and counted them itself
  SELECT run_id, session, count(*) AS completed,
    CASE WHEN count(ttft_ns) > 0 THEN avg(coalesce(ttft_ns, 0)) END AS ttft_ns,
    CASE WHEN count(e2e_ns) = count(*) THEN avg(e2e_ns) END AS e2e_ns,
    avg(ratio(CAST(e2e_ns AS DOUBLE) - ttft_ns, output_tokens - 1)) FILTER (output_tokens > 1) AS tpot_ns,
    CASE WHEN count(gaps_ns) = count(*) THEN coalesce(ratio(sum(list_sum(gaps_ns)), sum(len(gaps_ns))), 0) END AS gap_ns
  FROM stg_records
  WHERE vantage = 'client' AND traffic = 'load' AND status = 'ok'
  GROUP BY run_id, session
), claimed AS (
  SELECT d.*, l.max_concurrency, l.claimed_complete_requests,
    CAST(l.duration_ns AS DOUBLE) AS duration_ns,
    1e9 * ratio(l.claimed_complete_requests, l.claimed_request_throughput_rps) AS told_duration_ns,
    -- every request is known to have ended well
    d.requests = greatest(l.planned_requests, l.claimed_complete_requests) AS is_whole,
    isinf(l.request_rate_per_s) AND d.requests >= 4 * l.max_concurrency AND is_whole AS is_closed_loop,
    -- what may pass before the first send: 20 mean gaps, which a random gap exceeds once in 10^8; gaps
    -- of arrivals in bursts have a longer tail
    ratio(20e9, least(l.request_rate_per_s, TRY_CAST(json_extract_string(l.claims_json, '$.ramp_up_start_rps') AS DOUBLE))
      * least(coalesce(l.burstiness, 1), 1)) AS first_ns
  FROM loads AS d
  JOIN raw.load_sessions AS l ON l.run_id = d.run_id AND l.session IS NOT DISTINCT FROM d.session
), means AS (
  -- vLLM's clients print the plain means of the rows they save, so the two agree to rounding
  SELECT o.run_id, m.name, m.own_ns,
    1e6 * TRY_CAST(json_extract_string(l.claims_json, m.claim) AS DOUBLE) AS told_ns
  FROM own AS o
  JOIN raw.load_sessions AS l ON l.run_id = o.run_id AND l.session IS NOT DISTINCT FROM o.session
    AND o.completed = coalesce(l.claimed_complete_requests, o.completed),
  UNNEST([
    {'name': 'TTFT', 'claim': '$.mean_ttft_ms', 'own_ns': o.ttft_ns},
    {'name': 'end-to-end time', 'claim': '$.mean_e2el_ms', 'own_ns': o.e2e_ns},
    {'name': 'TPOT', 'claim': '$.mean_tpot_ms', 'own_ns': o.tpot_ns},
    {'name': 'gap between chunks', 'claim': '$.mean_itl_ms', 'own_ns': o.gap_ns}
  ]) AS u(m)
)
SELECT run_id, 'TIME001' AS code, shorter AS occurrences,
  concat('the engine recorded longer times than the client for ', shorter, ' of ', joined,
    ' requests: at the median TTFT ', coalesce(printf('%.6g', engine_ttft_ns / 1e6), '-'), ' ms against ',
    coalesce(printf('%.6g', ttft_ns / 1e6), '-'), ' ms, end-to-end ',
    coalesce(printf('%.6g', engine_e2e_ns / 1e6), '-'), ' ms against ', coalesce(printf('%.6g', e2e_ns / 1e6), '-'), ' ms') AS text
FROM below WHERE shorter * 20 > joined
UNION ALL BY NAME
SELECT run_id, 'TIME002' AS code, 1 AS occurrences,
  concat('the engine saw the requests arrive within ', printf('%.6g', engine_ns / 1e9),
    ' s, and by the client''s instants it must be from ', printf('%.6g', greatest(least_ns, 0) / 1e9), ' to ',
    printf('%.6g', most_ns / 1e9), ' s') AS text
FROM spread WHERE least_ns > 1.02 * engine_ns + 2e9 OR engine_ns > 1.02 * most_ns + 2e9
UNION ALL BY NAME
SELECT run_id, 'TIME002' AS code, 1 AS occurrences,
  concat('the engine''s counters grew for ', printf('%.6g', engine_ns / 1e9),
    ' s, and by the client''s instants its load lasted at least ', printf('%.6g', least_ns / 1e9), ' s') AS text
FROM scraped WHERE least_ns > 1.02 * engine_ns + 1e10
UNION ALL BY NAME
SELECT run_id, 'TIME003' AS code, CAST(engine_longer - client_longer AS BIGINT) AS occurrences,
  concat('by the engine''s histogram ', metric, ' at least ', CAST(engine_longer AS BIGINT), ' of ', requests,
    ' requests took longer than ', printf('%.6g', le), ' s, by the client''s times ', client_longer) AS text
FROM counted WHERE engine_longer - client_longer > 0.1 * requests + 1
UNION ALL BY NAME
SELECT run_id, 'TIME004' AS code, broken AS occurrences,
  concat('the parts of ', broken, ' of ', requests, ' requests are longer than their end-to-end time, as the client gives them') AS text
FROM loads WHERE broken * 20 > requests
UNION ALL BY NAME
SELECT run_id, 'TIME004' AS code, 1 AS occurrences,
  concat('the client''s requests last until ', printf('%.6g', whole_ns / 1e9), ' s after the first send, its whole load ',
    printf('%.6g', duration_ns / 1e9), ' s') AS text
FROM claimed WHERE whole_ns > 1.02 * duration_ns + 1e9
UNION ALL BY NAME
SELECT run_id, 'TIME004' AS code, 1 AS occurrences,
  concat('the client''s last request ends ', printf('%.6g', whole_ns / 1e9), ' s after the first send, its whole load after ',
    printf('%.6g', duration_ns / 1e9), ' s') AS text
FROM claimed WHERE is_whole AND is_timed AND duration_ns > 1.1 * whole_ns + 5e9 + first_ns
UNION ALL BY NAME
SELECT run_id, 'TIME004' AS code, 1 AS occurrences,
  concat('at most ', max_concurrency, ' requests were in flight and the client''s end-to-end times add up to ',
    printf('%.6g', sum_ns / 1e9), ' s within ', printf('%.6g', whole_ns / 1e9), ' s') AS text
FROM claimed WHERE sum_ns > max_concurrency * (1.02 * whole_ns + 1e9)
UNION ALL BY NAME
SELECT run_id, 'TIME004' AS code, 1 AS occurrences,
  concat('a closed loop keeps ', max_concurrency, ' requests in flight, and in the ', printf('%.6g', sends_ns / 1e9),
    ' s of its sends the client''s end-to-end times add up to ', printf('%.6g', sum_ns / 1e9), ' s only') AS text
FROM claimed WHERE is_closed_loop AND sum_ns < 0.1 * max_concurrency * sends_ns
UNION ALL BY NAME
SELECT run_id, 'TIME004' AS code, gapped AS occurrences,
  concat('the gaps between chunks of ', gapped, ' of ', requests,
    ' requests do not make up their time after the first: at the median ', printf('%.6g', gaps_ns / 1e6), ' ms of ',
    printf('%.6g', after_ns / 1e6), ' ms') AS text
FROM loads WHERE gapped * 20 > requests
UNION ALL BY NAME
SELECT run_id, 'TIME004' AS code, 1 AS occurrences,
  concat('the client claims a mean ', name, ' of ', printf('%.6g', told_ns / 1e6), ' ms, and that of its requests is ',
    printf('%.6g', own_ns / 1e6), ' ms') AS text
FROM means
WHERE told_ns > 0 AND abs(told_ns - own_ns) > 0.01 * greatest(told_ns, own_ns) + 1e4
UNION ALL BY NAME
SELECT run_id, 'TIME004' AS code, 1 AS occurrences,
  concat('the client claims a duration of ', printf('%.6g', duration_ns / 1e9), ' s, and its throughput says ',
    printf('%.6g', told_duration_ns / 1e9), ' s') AS text
FROM claimed
WHERE duration_ns > 0 AND told_duration_ns > 0
  AND (told_duration_ns > 1.02 * duration_ns + 1e7 OR duration_ns > 1.02 * told_duration_ns + 1e7)
UNION ALL BY NAME
SELECT run_id, code, occurrences, text FROM int_step_times
