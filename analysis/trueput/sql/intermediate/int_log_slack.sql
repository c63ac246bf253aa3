-- One row per run with a log of iterations: how far instants of the log and of a client may lie apart.
-- slack_ns: the uncertainties of both clocks and a second of the way. clocks_ns: the same without that
-- second and without the one that the log prints to.
-- Null rule: NULL where the uncertainty of one of the clocks is not known.
SELECT run_id,
  CASE WHEN count(*) = count(clock_uncertainty_ns) THEN 1e9 + sum(clock_uncertainty_ns) END AS slack_ns,
  CASE WHEN count(*) = count(clock_uncertainty_ns)
    THEN sum(CASE WHEN kind = 'log' THEN greatest(clock_uncertainty_ns - 1e9, 0) ELSE clock_uncertainty_ns END) END AS clocks_ns
FROM (
  SELECT run_id, kind, CASE WHEN count(*) = count(clock_uncertainty_ns) THEN max(clock_uncertainty_ns) END AS clock_uncertainty_ns
  FROM (
    SELECT DISTINCT t.run_id, 'log' AS kind, t.source_id FROM raw.engine_steps AS t
    UNION ALL
    SELECT DISTINCT q.run_id, 'client', q.source_id FROM raw.requests AS q WHERE q.vantage = 'client'
  ) AS f
  JOIN raw.sources AS c USING (run_id, source_id)
  GROUP BY run_id, kind
)
GROUP BY run_id
