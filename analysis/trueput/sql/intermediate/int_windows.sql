-- One row per run and load session: the span of time that rates are taken over.
-- Rule `all`: first send of the load to the last end of a sent request (without a client: first
-- arrival to last finish). `steady`: from the first to the last moment at which the number of
-- requests in flight was at least nine tenths of its maximum. `fixed`: offsets from the first send.
-- A fixed window that holds the whole load is that of the rule `all` to every cut, by whatever length:
-- window_rule says so, asked_rule what was asked. until_ns is the last instant inside: windows that
-- follow each other share the load out, the instant between two of them being the later one's.
-- first_ns and last_ns: the load as far as instants tell of it; a window that reaches none of it was
-- not observed, and rates over it (rate_ns) are not known.
-- window_ns_least and window_ns_most: what the length of a whole load lies between where its ends are
-- known to a second of a log, or to a scrape.
-- A client that does not tell when it gave a request up tells how long all of it took: the load ended
-- between the last end that is told and that, and where these are far apart with that.
-- Where no instants are known the client's own duration stands, basis `reported`. With counters
-- alone: first to last scrape between which requests were in the engine. With a profile alone: its
-- first operation to its last end.
WITH last_steps AS (
  SELECT run_id, max(logged_at_ns) AS last_ns FROM raw.engine_steps GROUP BY run_id
), asked AS (
  -- what was refused came back at once
  SELECT * REPLACE (CASE WHEN ruling <> 'rejected' THEN c_unended_at_ns END AS c_unended_at_ns)
  FROM int_ruled WHERE is_load AND sent_at_ns IS NOT NULL
), seen AS (
  SELECT q.run_id, q.session, min(q.sent_at_ns) AS first_ns,
    greatest(
      max(greatest(q.sent_at_ns, coalesce(q.ended_at_ns, q.sent_at_ns))),
      -- an engine's log alone names no finish: its last iteration is the last sign of work
      CASE WHEN NOT bool_or(q.in_client) AND count(q.ended_at_ns) < count(*) THEN max(t.last_ns) END
    ) AS last_ns,
    max(greatest(q.sent_at_ns, coalesce(q.c_unended_at_ns, q.ended_at_ns, q.sent_at_ns))) AS told_ns,
    bool_or(q.c_unended_at_ns IS NOT NULL) AS has_unended,
    -- the engine's second in which a request left ends before this
    CASE WHEN count(q.c_unended_at_ns) = count(q.c_unended_at_ns) FILTER (q.e_ended_at_ns IS NOT NULL)
      THEN max(q.e_ended_at_ns + CASE WHEN q.e_end_is_exact THEN 0 ELSE 999999999 END) FILTER (q.c_unended_at_ns IS NOT NULL)
      END AS left_ns,
    bool_or(q.in_client) AS has_client
  FROM asked AS q
  LEFT JOIN last_steps AS t ON t.run_id = q.run_id
  GROUP BY q.run_id, q.session
), limited AS (
  SELECT n.*,
    CASE WHEN n.has_unended AND l.duration_ns IS NOT NULL
      THEN greatest(n.told_ns, least(n.first_ns + l.duration_ns, n.left_ns)) END AS most_ns
  FROM seen AS n
  LEFT JOIN raw.load_sessions AS l ON l.run_id = n.run_id AND l.session IS NOT DISTINCT FROM n.session
), ends AS (
  SELECT * REPLACE (CASE WHEN most_ns IS NULL THEN last_ns
    WHEN most_ns - told_ns > (most_ns - first_ns) // 100 THEN most_ns ELSE least(last_ns, most_ns) END AS last_ns)
  FROM limited
), changes AS (
  SELECT run_id, session, sent_at_ns AS at_ns, 1 AS change FROM int_ruled
  WHERE is_load AND sent_at_ns IS NOT NULL AND ended_at_ns IS NOT NULL
    AND (SELECT rule = 'steady' FROM window_policy)
  UNION ALL
  SELECT run_id, session, ended_at_ns, -1 FROM int_ruled
  WHERE is_load AND sent_at_ns IS NOT NULL AND ended_at_ns IS NOT NULL
    AND (SELECT rule = 'steady' FROM window_policy)
), flight AS (
  SELECT run_id, session, at_ns,
    sum(sum(change)) OVER (PARTITION BY run_id, session ORDER BY at_ns) AS in_flight,
    lead(at_ns) OVER (PARTITION BY run_id, session ORDER BY at_ns) AS until_ns
  FROM changes GROUP BY run_id, session, at_ns
), steady AS (
  SELECT f.run_id, f.session, min(f.at_ns) AS from_ns, max(f.until_ns) AS to_ns
  FROM flight AS f
  JOIN (SELECT run_id, session, max(in_flight) AS most FROM flight GROUP BY run_id, session) AS m
    ON m.run_id = f.run_id AND m.session IS NOT DISTINCT FROM f.session
  WHERE f.in_flight * 10 >= m.most * 9
  GROUP BY f.run_id, f.session
), scraped AS (
  SELECT run_id, min(at_ns) AS first_ns, max(at_ns) AS last_ns, 'bounded' AS basis,
    greatest(0, max(at_ns) FILTER (not_ended) - min(at_ns) FILTER (had_begun)) AS least_ns
  FROM int_busy_scrapes GROUP BY run_id
  UNION ALL
  -- a profile without any request: the span of its operations
  SELECT run_id, min(first_at_ns), max(last_at_ns), 'measured', NULL
  FROM int_gpu_op_totals
  WHERE run_id NOT IN (SELECT run_id FROM int_busy_scrapes)
  GROUP BY run_id
), placed AS (
  SELECT
    s.run_id, s.session, w.rule AS asked_rule,
    CASE WHEN w.rule = 'fixed' AND w.from_ns = 0
        AND w.to_ns >= coalesce(coalesce(e.last_ns, c.last_ns) - coalesce(e.first_ns, c.first_ns), l.duration_ns)
      THEN 'all' ELSE w.rule END AS window_rule,
    coalesce(e.first_ns, c.first_ns) AS origin_ns,
    coalesce(e.first_ns, c.first_ns) AS first_ns,
    coalesce(e.last_ns, c.last_ns) AS last_ns,
    CASE w.rule
      -- the last instant of the load is of the window that it ends
      WHEN 'fixed' THEN coalesce(e.first_ns, c.first_ns) + w.from_ns
        + CASE WHEN w.from_ns > 0 AND coalesce(e.first_ns, c.first_ns) + w.from_ns = coalesce(e.last_ns, c.last_ns) THEN 1 ELSE 0 END
      WHEN 'steady' THEN d.from_ns
      ELSE coalesce(e.first_ns, c.first_ns)
    END AS from_ns,
    CASE w.rule
      WHEN 'fixed' THEN coalesce(e.first_ns, c.first_ns) + w.to_ns
      WHEN 'steady' THEN d.to_ns
      ELSE coalesce(e.last_ns, c.last_ns)
    END AS to_ns,
    CASE w.rule
      WHEN 'fixed' THEN w.to_ns - w.from_ns
      WHEN 'steady' THEN d.to_ns - d.from_ns
      ELSE coalesce(nullif(e.last_ns - e.first_ns, 0), l.duration_ns, c.last_ns - c.first_ns)
    END AS window_ns,
    CASE
      WHEN e.first_ns IS NOT NULL THEN 'measured'
      WHEN l.duration_ns IS NOT NULL THEN 'reported'
      WHEN c.first_ns IS NOT NULL THEN c.basis
      ELSE 'unknown'
    END AS basis,
    -- by how much the end of a load is open whose client does not tell when it gave requests up
    CASE WHEN w.rule = 'all' AND e.most_ns IS NOT NULL THEN e.most_ns - e.told_ns ELSE 0 END AS open_end_ns,
    -- an engine's log tells its seconds: they began before what is in them
    CASE WHEN w.rule = 'all' AND e.most_ns IS NOT NULL THEN e.last_ns - e.told_ns
      WHEN w.rule <> 'all' OR coalesce(e.has_client OR x.is_exact, false) THEN 0
      WHEN e.first_ns % 1000000000 = 0 THEN 1000000000
      WHEN e.first_ns IS NULL AND l.duration_ns IS NULL THEN c.last_ns - c.first_ns - c.least_ns
      ELSE 0 END AS over_ns,
    CASE WHEN w.rule = 'all' AND e.most_ns IS NOT NULL THEN e.most_ns - e.last_ns
      WHEN w.rule <> 'all' OR coalesce(e.has_client OR x.is_exact, false) THEN 0
      WHEN e.last_ns % 1000000000 = 0 THEN 1000000000 ELSE 0 END AS under_ns
  FROM int_sessions AS s
  CROSS JOIN window_policy AS w
  LEFT JOIN ends AS e ON e.run_id = s.run_id AND e.session IS NOT DISTINCT FROM s.session
  LEFT JOIN steady AS d ON d.run_id = s.run_id AND d.session IS NOT DISTINCT FROM s.session
  LEFT JOIN scraped AS c ON c.run_id = s.run_id
  LEFT JOIN raw.load_sessions AS l ON l.run_id = s.run_id AND l.session IS NOT DISTINCT FROM s.session
  LEFT JOIN (
    SELECT run_id, bool_or(format = 'otlp_spans') AND NOT coalesce(bool_or(format = 'vllm_log'), false) AS is_exact
    FROM raw.sources GROUP BY run_id
  ) AS x ON x.run_id = s.run_id
)
SELECT
  * EXCLUDE (over_ns, under_ns),
  to_ns - CASE WHEN asked_rule = 'fixed' AND to_ns < last_ns THEN 1 ELSE 0 END AS until_ns,
  coalesce(from_ns <= last_ns AND to_ns >= first_ns, true) AS is_observed,
  CASE WHEN coalesce(from_ns <= last_ns AND to_ns >= first_ns, true) THEN window_ns END AS rate_ns,
  window_ns - coalesce(over_ns, 0) AS window_ns_least,
  window_ns + under_ns AS window_ns_most
FROM placed
