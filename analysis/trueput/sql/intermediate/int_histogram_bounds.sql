-- One row per run whose objective can be bounded from histograms: shares of the finished requests.
-- Formula: max(0, sum of lower shares - (limits - 1)) <= good share <= smallest upper share.
-- A limit without a histogram leaves the lower bound 0.
SELECT
  p.run_id,
  max(h.observations) AS observations,
  CASE WHEN count(h.name) < limit_count.n THEN 0.0
    ELSE greatest(0.0, sum(h.share_low) - (limit_count.n - 1)) END AS share_low,
  min(h.share_high) AS share_high
FROM slo_policy AS p
JOIN (
  SELECT run_id, (ttft_limit_ns IS NOT NULL)::INTEGER + (tpot_limit_ns IS NOT NULL)::INTEGER
    + (itl_p99_limit_ns IS NOT NULL)::INTEGER + (e2e_limit_ns IS NOT NULL)::INTEGER AS n
  FROM slo_policy
) AS limit_count ON limit_count.run_id = p.run_id
JOIN int_histogram_shares AS h ON h.run_id = p.run_id
GROUP BY p.run_id, limit_count.n
HAVING max(h.observations) > 0
