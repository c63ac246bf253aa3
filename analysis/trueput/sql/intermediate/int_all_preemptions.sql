-- One row per run: how many preemptions its engine counted in all of its files, each kind of evidence
-- by itself; NULL where that kind does not say.
-- Formula: a counter and a running count that fall have restarted from 0. What ingest found that the
-- counters say of all iterations (run_recompute) comes first; else a counter that was scraped in its
-- engine's first life counts from its first scrape.
-- Null rule: a counter that does not cover the run (ATTR017) does not say how many there were in it;
-- nor does a single scrape, unless it is 0.
WITH lives AS (
  SELECT e.run_id,
    exact_count(arg_max(value, at_ns)) - CASE WHEN bool_or(coalesce(f.counts_from_zero, e.incarnation > 0)) OR exact_count(arg_min(value, at_ns)) = 0 THEN 0
      WHEN count(*) > 1 THEN exact_count(arg_min(value, at_ns)) END AS growth
  FROM raw.engine_samples AS e
  LEFT JOIN int_counting_lives AS f
    ON f.run_id = e.run_id AND f.source_id = e.source_id AND f.engine = e.engine AND f.incarnation = e.incarnation
  WHERE metric = 'vllm:num_preemptions_total' AND kind = 'counter'
  GROUP BY e.run_id, e.engine, coalesce(f.life, e.incarnation), labels
), counted AS (
  SELECT run_id, CASE WHEN count(growth) = count(*) THEN CAST(sum(growth) AS BIGINT) END AS growth FROM lives GROUP BY run_id
), said AS (
  SELECT run_id, cumulative,
    cumulative - coalesce(lag(cumulative) OVER (PARTITION BY run_id ORDER BY at_ns, cumulative), 0) AS more
  FROM raw.request_events
  WHERE event = 'preempted'
), told AS (
  SELECT run_id, CAST(sum(CASE WHEN more >= 0 THEN more ELSE cumulative END) AS BIGINT) AS printed, count(*) AS events
  FROM said GROUP BY run_id
), known AS (
  SELECT r.run_id, p.run_id IS NOT NULL AS is_in_part, coalesce(t.preemptions, CASE WHEN p.run_id IS NULL THEN c.growth END) AS counted
  FROM raw.runs AS r
  LEFT JOIN counted AS c ON c.run_id = r.run_id
  LEFT JOIN raw.run_recompute AS t ON t.run_id = r.run_id
  LEFT JOIN (SELECT DISTINCT run_id FROM raw.problems WHERE code = 'ATTR017') AS p ON p.run_id = r.run_id
)
SELECT
  r.run_id, r.counted, r.is_in_part, e.printed, e.events,
  coalesce(r.counted, e.printed, e.events) AS all_preemptions
FROM known AS r
LEFT JOIN told AS e ON e.run_id = r.run_id
