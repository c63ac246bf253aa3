-- One row per run (or load session): how many requests met their promise, and how fast.
-- goodput_rps = good requests whose end lies in the window / window seconds.
-- slo_attainment_ratio = good / planned. Without an objective good, late and goodput are NULL.
-- answered, complete and good are NULL where a request may or may not be one of them; *_low and *_high
-- then bound them. Where only finished requests leave a record, how many were sent is not known, nor
-- whether those that did not finish made the window longer. Bounds of goodput hold what its window's
-- length lies between, where a log's seconds or scrapes are all that tell of it.
-- Where no request was recorded but histograms were, attainment and goodput are bounded.
-- What a client claims is of its whole load: it stands in for a figure only where the window is all
-- of it. other_traffic_requests are those of all the files.
-- In a window that cuts the load, requests that were sent and have no instant may be in it: counts of
-- sends are then NULL and the others bounded. Where it lies before or after all that is known of the
-- load, rates are NULL: nothing of it was observed there. Where it reaches beyond the last instant of all
-- files its rates are over that time too: they are at least that, as nobody knows what ended there.
SELECT
  k.run_id, k.session, p.slo, w.asked_rule AS window_rule, w.window_ns, seconds(w.window_ns) AS window_s,
  coalesce(d.gpu_count, d.profiled_gpus, d.engine_ranks) AS devices,
  CASE WHEN x.run_id IS NULL THEN CASE WHEN c.unplaced > 0 THEN NULL
      ELSE coalesce(c.planned, CASE WHEN w.window_rule = 'all' THEN n.asked_requests END) END
    WHEN w.window_rule = 'all' THEN n.asked_requests END AS planned_requests,
  CASE WHEN x.run_id IS NULL AND c.unplaced = 0 THEN c.sent END AS sent_requests,
  CASE WHEN c.answered_open = 0 AND x.run_id IS NULL THEN c.answered END AS answered_requests,
  c.answered AS answered_requests_low,
  CASE WHEN x.run_id IS NULL OR n.asked_requests IS NOT NULL THEN c.answered + c.answered_open END AS answered_requests_high,
  CASE WHEN c.run_id IS NULL THEN CASE WHEN w.is_observed THEN m.finished END WHEN c.complete_open = 0 THEN c.complete END AS complete_requests,
  coalesce(c.complete, CASE WHEN w.is_observed THEN m.finished END) AS complete_requests_low,
  coalesce(c.complete + c.complete_open, CASE WHEN w.is_observed THEN m.finished END) AS complete_requests_high,
  CASE WHEN p.slo IS NOT NULL AND c.good_open = 0 THEN c.good END AS good_requests,
  CASE WHEN p.slo IS NOT NULL THEN c.good END AS good_requests_low,
  CASE WHEN p.slo IS NOT NULL THEN c.good + c.good_open END AS good_requests_high,
  CASE WHEN p.slo IS NOT NULL AND c.unplaced = 0 THEN c.late END AS late_requests,
  CASE WHEN x.run_id IS NULL AND c.unplaced = 0 THEN c.rejected END AS rejected_requests,
  CASE WHEN x.run_id IS NULL AND c.unplaced = 0 THEN c.failed END AS failed_requests,
  CASE WHEN x.run_id IS NULL AND c.unplaced = 0 THEN c.aborted END AS aborted_requests,
  CASE WHEN x.run_id IS NULL AND c.unplaced = 0 THEN c.unfinished END AS unfinished_requests,
  CASE WHEN x.run_id IS NULL THEN c.not_sent END AS not_sent_requests, c.unknown AS unknown_requests,
  c.slo_not_applicable AS slo_not_applicable_requests,
  o.other AS other_traffic_requests,
  l.claimed_complete_requests AS client_claimed_complete_requests,
  l.claimed_goodput_rps AS client_claimed_goodput_rps,
  CASE WHEN p.slo IS NOT NULL AND coalesce(c.good_open, 0) = 0 AND coalesce(c.unplaced, 0) = 0 AND (x.run_id IS NULL OR n.asked_requests IS NOT NULL)
    THEN ratio(c.good, c.planned) END AS slo_attainment_ratio,
  CASE WHEN p.slo IS NULL THEN NULL WHEN x.run_id IS NOT NULL AND n.asked_requests IS NULL THEN 0
    WHEN c.run_id IS NOT NULL THEN ratio(c.good, c.planned + c.unplaced)
    ELSE CASE WHEN b.is_whole THEN ratio(b.good_low, b.ended) ELSE 0 END END AS slo_attainment_ratio_low,
  CASE WHEN p.slo IS NULL THEN NULL WHEN c.run_id IS NOT NULL THEN ratio(c.good + c.good_open, c.planned + c.good_open - c.unknown)
    ELSE ratio(b.good_high, b.ended) END AS slo_attainment_ratio_high,
  CASE WHEN p.slo IS NOT NULL AND coalesce(c.unknown_ends, 0) = 0
    THEN per_second(c.good_ends, w.rate_ns) END AS goodput_rps,
  CASE WHEN p.slo IS NULL OR NOT w.is_observed THEN NULL
    -- requests of which no span tells may have come before all others, or ended after them
    WHEN x.run_id IS NOT NULL AND w.asked_rule = 'all' AND (n.asked_requests IS NULL OR n.rows_missing > 0) THEN 0
    ELSE per_second(CASE WHEN c.run_id IS NOT NULL THEN c.good_ends ELSE b.good_low END, w.window_ns_most) END AS goodput_rps_low,
  CASE WHEN p.slo IS NOT NULL AND w.is_observed AND y.run_id IS NULL
    THEN per_second(CASE WHEN c.run_id IS NOT NULL THEN c.good_ends + c.unknown_ends ELSE b.good_high END, w.window_ns_least)
    END AS goodput_rps_high,
  CASE WHEN p.slo IS NOT NULL AND coalesce(d.gpu_count, d.profiled_gpus) IS NOT NULL AND coalesce(c.unknown_ends, 0) = 0
    THEN ratio(per_second(c.good_ends, w.rate_ns), coalesce(d.gpu_count, d.profiled_gpus)) END AS goodput_per_gpu_rps,
  CASE WHEN p.slo IS NOT NULL AND coalesce(c.unknown_ends, 0) = 0
    THEN ratio(seconds(w.rate_ns) * coalesce(d.gpu_count, d.profiled_gpus), c.good_ends) END AS gpu_seconds_per_good_request,
  CASE WHEN p.slo IS NOT NULL AND coalesce(c.unknown_ends, 0) = 0
    THEN ratio(seconds(w.rate_ns) * coalesce(d.gpu_count, d.profiled_gpus) * r.price_per_gpu_hour / 3600, c.good_ends) END AS cost_per_good_request,
  CASE WHEN coalesce(c.unknown, 0) = 0 AND coalesce(c.unplaced_ends, 0) = 0
    THEN coalesce(per_second(c.complete_ends, w.rate_ns),
      CASE WHEN w.window_rule = 'all' THEN l.claimed_request_throughput_rps END) END AS request_throughput_rps,
  coalesce(CASE WHEN c.unplaced_tokens = 0 THEN per_second(c.output_tokens, w.rate_ns) END,
    CASE WHEN w.window_rule = 'all' THEN l.claimed_output_tokens_per_s END,
    CASE WHEN c.run_id IS NULL THEN per_second(m.generated, w.rate_ns) END) AS output_tokens_per_s,
  CASE WHEN p.slo IS NOT NULL AND c.unplaced_tokens = 0 THEN coalesce(per_second(c.good_output_tokens, w.rate_ns),
    CASE WHEN c.good_ends = 0 AND w.is_observed THEN 0.0 END) END AS good_output_tokens_per_s,
  CASE WHEN p.slo IS NOT NULL AND c.run_id IS NOT NULL AND c.unknown = 0 AND c.unplaced_tokens = 0 AND w.is_observed
    THEN coalesce(c.wasted_output_tokens, 0) END AS wasted_output_tokens,
  CASE
    WHEN NOT w.is_observed THEN 'unknown'
    WHEN x.run_id IS NOT NULL OR y.run_id IS NOT NULL THEN 'bounded'
    -- what the client alone says of its requests, and of how long they took, are claims
    WHEN c.run_id IS NOT NULL AND c.unknown = 0 AND c.unplaced = 0
      AND (w.window_ns_least IS NOT DISTINCT FROM w.window_ns_most OR (c.checked = 0 AND l.duration_ns IS NOT NULL))
      THEN CASE WHEN c.checked > 0 THEN 'measured' ELSE 'reported' END
    WHEN c.run_id IS NOT NULL THEN 'bounded'
    WHEN b.run_id IS NOT NULL THEN 'bounded'
    WHEN l.run_id IS NOT NULL AND w.window_rule = 'all' THEN 'reported'
    ELSE 'unknown'
  END AS basis
FROM int_sessions AS k
LEFT JOIN slo_policy AS p ON p.run_id = k.run_id
LEFT JOIN int_windows AS w ON w.run_id = k.run_id AND w.session IS NOT DISTINCT FROM k.session
LEFT JOIN int_outcome_counts AS c ON c.run_id = k.run_id AND c.session IS NOT DISTINCT FROM k.session
LEFT JOIN int_planned AS n ON n.run_id = k.run_id AND n.session IS NOT DISTINCT FROM k.session
LEFT JOIN raw.load_sessions AS l ON l.run_id = k.run_id AND l.session IS NOT DISTINCT FROM k.session
LEFT JOIN (
  -- aborted requests are in the histograms too: of those within the limits as many may be no complete
  -- ones as did not finish. Where no counter says how many finished, none need have. An abort before
  -- the first token is in no counter: where some aborted, nobody knows of how many requests
  SELECT h.run_id,
    greatest(0, h.share_low * h.observations - greatest(0, h.observations - coalesce(f.finished, 0))) AS good_low,
    least(h.share_high * h.observations, coalesce(f.finished, h.observations)) AS good_high,
    greatest(h.observations, coalesce(f.ended, 0)) AS ended,
    coalesce(f.finished = greatest(h.observations, f.ended), false) AS is_whole
  FROM int_histogram_bounds AS h
  LEFT JOIN (
    SELECT run_id, CASE WHEN count(window_growth) = count(*) THEN sum(window_growth) END AS ended,
      CASE WHEN count(window_growth) = count(*) THEN coalesce(sum(window_growth) FILTER (
        labels LIKE '%finished_reason=stop%' OR labels LIKE '%finished_reason=length%'), 0) END AS finished
    FROM int_counter_totals
    WHERE metric = 'vllm:request_success_total'
    GROUP BY run_id
  ) AS f ON f.run_id = h.run_id
) AS b ON b.run_id = k.run_id AND c.run_id IS NULL
LEFT JOIN (
  -- what an engine's counters say where no request was recorded
  SELECT run_id,
    CAST(sum(growth) FILTER (metric = 'vllm:generation_tokens_total') AS BIGINT) AS generated,
    CAST(sum(growth) FILTER (metric = 'vllm:request_success_total') AS BIGINT) AS finished
  FROM (
    SELECT run_id, metric, CASE WHEN count(window_growth) = count(*) THEN sum(window_growth) END AS growth
    FROM int_counter_totals
    WHERE metric = 'vllm:generation_tokens_total' OR (metric = 'vllm:request_success_total'
      AND (labels LIKE '%finished_reason=stop%' OR labels LIKE '%finished_reason=length%'))
    GROUP BY run_id, metric
  ) GROUP BY run_id
) AS m ON m.run_id = k.run_id AND c.run_id IS NULL AND l.run_id IS NULL
LEFT JOIN int_finished_only AS x ON x.run_id = k.run_id
LEFT JOIN int_beyond_record AS y ON y.run_id = k.run_id
LEFT JOIN int_devices AS d ON d.run_id = k.run_id
LEFT JOIN raw.runs AS r ON r.run_id = k.run_id
LEFT JOIN (
  SELECT run_id, count(*) AS other FROM request_outcomes WHERE outcome = 'other_traffic' GROUP BY run_id
) AS o ON o.run_id = k.run_id
