-- One row per run: what its engine computed again in the run's window, and what that cost.
-- The rule `all` takes whole lives of the engine: those that served the load. Recompute is what the
-- balance of a life leaves, and other traffic of that life is in it.
-- Formula: the figures of all its iterations (run_recompute) where none of them lies outside the
-- window. Else they are cut at the window by where recompute was placed (step_work): exactly where
-- every token has a place; as they are where nothing outside can have been recompute; else bounded by
-- the tokens beyond what decoding can need, inside and outside.
-- Nothing outside a window that covers its load can have been recompute where none was placed there
-- or shows, and every preemption that was counted lies inside, or no two requests shared an iteration
-- there. Nothing inside such a window was computed again where no preemption lies in it and its
-- engine began in it, or had served one request at a time before.
-- An iteration that an end of the window may divide is counted on one side, and bounds allow both.
-- Of a window shorter than the second of its iterations' lines only what the whole run leaves it is known.
-- Null rule: as in run_recompute; no row where the window reaches neither the load nor an iteration, and where the
-- log has no iteration in the load; a
-- figure that cannot be cut is NULL, with its bounds.
WITH lives AS (
  SELECT
    t.run_id, any_value(t.window_rule) AS window_rule,
    count(*) FILTER (NOT t.is_inside) AS steps_outside,
    coalesce(bool_or(t.is_inside), false) AS is_in_window,
    coalesce(max(t.requests) FILTER (NOT t.is_inside), 0) AS most_outside,
    coalesce(max(t.requests) FILTER (NOT t.is_inside AND t.logged_at_ns < t.from_ns), 0) AS most_before,
    sum(t.tokens) FILTER (t.is_inside) AS tokens,
    sum(t.elapsed_ns) FILTER (t.is_inside) AS elapsed_ns,
    coalesce(sum(t.shape) FILTER (t.is_inside AND NOT t.is_divided), 0) AS shape,
    coalesce(sum(t.shape) FILTER (NOT t.is_inside AND NOT t.is_divided), 0) AS shape_outside,
    coalesce(sum(t.shape) FILTER (t.is_divided), 0) AS shape_divided,
    coalesce(sum(t.again) FILTER (t.is_inside), 0) AS again,
    coalesce(sum(t.again) FILTER (NOT t.is_inside), 0) AS again_outside,
    coalesce(sum(t.recompute_ns) FILTER (t.is_inside), 0) AS recompute_ns,
    coalesce(sum(t.recompute_ns_low) FILTER (t.is_inside AND NOT t.is_divided), 0) AS recompute_ns_low,
    coalesce(sum(t.elapsed_ns) FILTER ((t.is_inside OR t.is_divided) AND t.again > 0), 0) AS recompute_ns_high,
    -- what an end of the window may divide: counted on one side, and possible on both
    coalesce(sum(t.again) FILTER (t.is_divided AND t.is_inside), 0) AS again_divided,
    coalesce(sum(t.again) FILTER (t.is_divided AND NOT t.is_inside), 0) AS again_beside,
    coalesce(sum(t.tokens) FILTER (t.is_divided AND NOT t.is_inside), 0) AS tokens_beside,
    coalesce(sum(t.elapsed_ns) FILTER (t.is_divided AND NOT t.is_inside), 0) AS elapsed_ns_beside
  FROM (
    SELECT
      u.* EXCLUDE (is_inside),
      u.is_inside OR (u.window_rule = 'all' AND bool_or(u.is_inside) OVER (PARTITION BY u.run_id, u.engine, u.incarnation, u.life)) AS is_inside
    FROM (
      SELECT
        s.run_id, s.engine, s.incarnation, f.life, s.logged_at_ns, s.elapsed_ns, v.window_rule, v.from_ns,
        step_is_inside(v.window_rule, s.logged_at_ns, v.from_ns, v.until_ns, v.first_ns, v.last_ns) AS is_inside,
        step_is_divided(v.window_rule, s.logged_at_ns, s.elapsed_ns, v.from_ns, v.until_ns, v.first_ns, v.last_ns) AS is_divided,
        s.context_tokens + s.generation_tokens AS tokens,
        coalesce(s.context_requests, 0) + coalesce(s.generation_requests, 0) AS requests,
        greatest(s.generation_tokens - s.generation_requests, 0) AS shape,
        k.recomputed_tokens AS again, k.recompute_ns, k.recompute_ns_low
      FROM raw.engine_steps AS s
      JOIN int_run_windows AS v ON v.run_id = s.run_id
      JOIN int_log_lives AS f
        ON f.run_id = s.run_id AND f.source_id = s.source_id AND f.engine = s.engine AND f.incarnation = s.incarnation
      LEFT JOIN raw.step_work AS k
        ON k.run_id = s.run_id AND k.source_id = s.source_id AND k.engine = s.engine
        AND k.incarnation = s.incarnation AND k.step_ix = s.step_ix
      WHERE NOT s.dummy
    ) AS u
  ) AS t
  GROUP BY t.run_id, t.engine, t.incarnation, t.life
), sums AS (
  SELECT
    run_id, any_value(window_rule) = 'all' AS covers_load,
    sum(steps_outside) AS steps_outside,
    max(most_outside) AS most_outside,
    coalesce(max(most_before) FILTER (is_in_window), 0) AS most_before,
    CAST(sum(tokens) AS BIGINT) AS tokens, CAST(sum(elapsed_ns) AS BIGINT) AS elapsed_ns,
    CAST(sum(shape) AS BIGINT) AS shape, CAST(sum(shape_outside) AS BIGINT) AS shape_outside,
    CAST(sum(again) AS BIGINT) AS again, CAST(sum(again_outside) AS BIGINT) AS again_outside,
    CAST(sum(recompute_ns) AS BIGINT) AS recompute_ns, CAST(sum(recompute_ns_low) AS BIGINT) AS recompute_ns_low,
    CAST(sum(recompute_ns_high) AS BIGINT) AS recompute_ns_high,
    CAST(sum(shape_divided) AS BIGINT) AS shape_divided,
    CAST(sum(again_divided) AS BIGINT) AS again_divided, CAST(sum(again_beside) AS BIGINT) AS again_beside,
    CAST(sum(tokens_beside) AS BIGINT) AS tokens_beside, CAST(sum(elapsed_ns_beside) AS BIGINT) AS elapsed_ns_beside
  FROM lives GROUP BY run_id
), judged AS (
  SELECT
    t.*, s.* EXCLUDE (run_id, recompute_ns, recompute_ns_low, recompute_ns_high), n.most_ns,
    s.recompute_ns AS cut_ns, s.recompute_ns_low AS cut_ns_low, s.recompute_ns_high AS cut_ns_high,
    -- drafts are scheduled beyond what decoding needs: then nothing shows
    CASE WHEN t.recomputed_tokens_low >= s.shape + s.shape_outside + s.shape_divided THEN s.shape ELSE 0 END AS shown,
    CASE WHEN t.recomputed_tokens_low >= s.shape + s.shape_outside + s.shape_divided THEN s.shape_outside ELSE 0 END AS shown_outside,
    CASE
      -- a window that reaches neither the load nor an iteration
      WHEN s.tokens IS NULL AND NOT v.is_observed THEN 'unseen'
      WHEN n.run_id IS NOT NULL THEN 'short'
      WHEN s.covers_load AND x.preemptions = 0 AND s.most_before <= 1 THEN 'none'
      -- nor of a log that has none in the load
      WHEN s.tokens IS NULL AND (s.covers_load OR r.is_elsewhere) THEN 'unseen'
      WHEN s.again + s.again_outside = t.recomputed_tokens THEN 'placed'
      WHEN s.covers_load AND s.again_outside = 0 AND (s.shape_outside = 0 OR t.recomputed_tokens_low < s.shape + s.shape_outside)
        AND (s.most_outside <= 1 OR x.preemptions = x.all_preemptions) THEN 'whole'
      ELSE 'open'
    END AS how
  FROM raw.run_recompute AS t
  JOIN sums AS s ON s.run_id = t.run_id
  JOIN int_run_windows AS v ON v.run_id = t.run_id
  LEFT JOIN int_preemptions AS x ON x.run_id = t.run_id
  LEFT JOIN int_short_windows AS n ON n.run_id = t.run_id
  LEFT JOIN int_log_reach AS r ON r.run_id = t.run_id
  WHERE s.steps_outside > 0
)
SELECT
  t.run_id, t.scheduled_tokens, t.recomputed_tokens, t.recomputed_tokens_low, t.recomputed_tokens_high,
  t.recompute_ns, t.recompute_ns_low, t.recompute_ns_high, t.method, t.basis
FROM raw.run_recompute AS t
WHERE t.run_id NOT IN (SELECT j.run_id FROM judged AS j)
UNION ALL BY NAME
SELECT
  run_id, tokens AS scheduled_tokens,
  CASE how WHEN 'none' THEN 0 WHEN 'whole' THEN recomputed_tokens WHEN 'placed' THEN again END AS recomputed_tokens,
  CASE how WHEN 'none' THEN 0 WHEN 'whole' THEN recomputed_tokens_low
    WHEN 'placed' THEN greatest(shown, again - again_divided - (recomputed_tokens - recomputed_tokens_low)) ELSE shown END AS recomputed_tokens_low,
  CASE how WHEN 'none' THEN 0 WHEN 'whole' THEN recomputed_tokens_high
    WHEN 'placed' THEN again + again_beside + recomputed_tokens_high - recomputed_tokens
    ELSE least(recomputed_tokens_high - shown_outside, CASE WHEN recomputed_tokens_high IS NOT NULL THEN tokens + tokens_beside END)
    END AS recomputed_tokens_high,
  CASE how WHEN 'none' THEN 0 WHEN 'whole' THEN recompute_ns WHEN 'placed' THEN cut_ns END AS recompute_ns,
  CASE how WHEN 'none' THEN 0 WHEN 'whole' THEN recompute_ns_low ELSE least(cut_ns_low, cut_ns) END AS recompute_ns_low,
  CASE WHEN how = 'none' THEN 0 WHEN how = 'whole' THEN recompute_ns_high
    WHEN how = 'placed' AND recomputed_tokens_high = recomputed_tokens THEN greatest(cut_ns_high, cut_ns)
    ELSE least(recompute_ns_high, elapsed_ns + elapsed_ns_beside) END AS recompute_ns_high,
  CASE WHEN how = 'none' THEN 'preemption_counter' ELSE method END AS method,
  CASE WHEN how = 'none' THEN 'reported' WHEN how = 'open' AND basis <> 'unknown' THEN 'bounded'
    WHEN how = 'placed' AND again_divided + again_beside > 0 THEN 'bounded' ELSE basis END AS basis
FROM judged
WHERE how NOT IN ('unseen', 'short')
UNION ALL BY NAME
SELECT run_id,
  CASE WHEN recomputed_tokens_high = 0 THEN 0 END AS recomputed_tokens, 0 AS recomputed_tokens_low, recomputed_tokens_high,
  CASE WHEN recomputed_tokens_high = 0 THEN 0 END AS recompute_ns, 0 AS recompute_ns_low,
  CAST(least(CASE WHEN recomputed_tokens_high = 0 THEN 0 ELSE recompute_ns_high END, most_ns) AS BIGINT) AS recompute_ns_high,
  method, CASE WHEN basis = 'unknown' OR recomputed_tokens_high = 0 THEN basis ELSE 'bounded' END AS basis
FROM judged
WHERE how = 'short'
