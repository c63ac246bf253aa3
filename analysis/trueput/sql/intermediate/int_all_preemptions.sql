-- One row per run: how many preemptions its engine counted in all of its files, each kind of evidence
-- by itself; NULL where that kind does not say.
-- Formula: a counter and a running count that fall have restarted from 0. A counter that was scraped
-- in its engine's first life counts from its first scrape.
WITH lives AS (
  SELECT run_id,
    exact_count(arg_max(value, at_ns)) - CASE WHEN incarnation > 0 THEN 0 ELSE exact_count(arg_min(value, at_ns)) END AS growth
  FROM raw.engine_samples
  WHERE metric = 'vllm:num_preemptions_total' AND kind = 'counter'
  GROUP BY run_id, engine, incarnation, labels
), counted AS (
  SELECT run_id, CAST(sum(growth) AS BIGINT) AS growth FROM lives GROUP BY run_id
), said AS (
  SELECT run_id, cumulative,
    cumulative - coalesce(lag(cumulative) OVER (PARTITION BY run_id ORDER BY at_ns, cumulative), 0) AS more
  FROM raw.request_events
  WHERE event = 'preempted'
), told AS (
  SELECT run_id, CAST(sum(CASE WHEN more >= 0 THEN more ELSE cumulative END) AS BIGINT) AS printed, count(*) AS events
  FROM said GROUP BY run_id
)
SELECT
  r.run_id, c.growth AS counted, e.printed, e.events,
  coalesce(c.growth, e.printed, e.events) AS all_preemptions
FROM raw.runs AS r
LEFT JOIN counted AS c ON c.run_id = r.run_id
LEFT JOIN told AS e ON e.run_id = r.run_id
