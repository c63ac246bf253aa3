-- One row per engine iteration, kind of work and outcome: the share of that work of the iteration
-- that went to requests of the outcome, with what it must lie between.
-- Why: a step serves several requests; where the replay tells which, its time follows them.
-- Formula: prefill by the prompt tokens that each request computed in the iteration, decode by
-- sequences, recompute by recomputed tokens. Where several requests of unknown cached tokens prefilled
-- at once and it is open which of them the prefix cache served, each outcome gets what it has either
-- way; the rest is unknown's. Low and high are what the others' bounds leave of the iteration's tokens.
-- A prefill of which only the stretch is known spreads its uncached prompt evenly; where a prefix cache
-- may have held some of it, it computed at least one token in each iteration and at most its prompt.
-- Null rule: an iteration whose requests are not known has no row.
WITH present AS (
  SELECT
    r.run_id, r.engine, r.incarnation, r.work, r.first_step_ix, r.last_step_ix,
    coalesce(o.outcome, 'unknown') AS outcome,
    r.last_step_ix - r.first_step_ix + 1 AS steps,
    CASE WHEN r.tokens IS NOT NULL THEN CAST(r.tokens AS DOUBLE)
      WHEN r.work = 'prefill' THEN coalesce(ratio(o.prompt_tokens - coalesce(o.cached_prompt_tokens, 0),
        r.last_step_ix - r.first_step_ix + 1), 1.0)
      ELSE 1.0
    END AS weight,
    r.tokens_else, r.tokens_low, r.tokens_high,
    CASE WHEN r.work = 'prefill' AND r.tokens IS NULL AND o.cached_prompt_tokens IS NULL AND NOT c.cache_is_off
      THEN o.prompt_tokens END AS most
  FROM raw.request_steps AS r
  JOIN int_prefix_caches AS c ON c.run_id = r.run_id
  LEFT JOIN int_outcomes AS o ON o.run_id = r.run_id AND o.request_id = r.request_id
), weighed AS (
  SELECT t.run_id, t.engine, t.incarnation, t.step_ix, p.work, p.outcome,
    fsum(p.weight) AS weight,
    least(fsum(p.weight), fsum(coalesce(p.tokens_else, p.weight))) AS told,
    fsum(coalesce(p.tokens_low, CASE WHEN p.most IS NULL THEN p.weight ELSE least(p.weight, 1.0) END)) AS least_weight,
    fsum(coalesce(p.tokens_high,
      CASE WHEN p.most IS NULL THEN p.weight ELSE greatest(p.weight, p.most - p.steps + 1) END)) AS most_weight,
    bool_or(p.most IS NOT NULL) AS is_spread,
    any_value(CAST(t.context_tokens AS DOUBLE)) AS context_tokens
  FROM int_steps AS t
  JOIN present AS p
    ON p.run_id = t.run_id AND p.engine = t.engine AND p.incarnation = t.incarnation
    AND t.step_ix BETWEEN p.first_step_ix AND p.last_step_ix
  GROUP BY t.run_id, t.engine, t.incarnation, t.step_ix, p.work, p.outcome
), shared AS (
  SELECT *,
    sum(weight) OVER part AS whole,
    sum(least_weight) OVER part - least_weight AS others_least,
    sum(most_weight) OVER part - most_weight AS others_most,
    CASE WHEN bool_or(is_spread) OVER part THEN context_tokens ELSE sum(weight) OVER part END AS tokens
  FROM weighed
  WINDOW part AS (PARTITION BY run_id, engine, incarnation, step_ix, work)
), parted AS (
  SELECT run_id, engine, incarnation, step_ix, work, outcome, told AS weight, ratio(told, whole) AS share,
    coalesce(ratio(greatest(least_weight, tokens - others_most), tokens), 0) AS low,
    coalesce(ratio(least(most_weight, tokens - others_least), tokens), 1) AS high
  FROM shared
  UNION ALL
  SELECT run_id, engine, incarnation, step_ix, work, 'unknown', fsum(weight - told), ratio(fsum(weight - told), any_value(whole)),
    0.0, ratio(fsum(weight - told), any_value(whole))
  FROM shared
  GROUP BY run_id, engine, incarnation, step_ix, work
  HAVING fsum(weight - told) > 0
)
SELECT run_id, engine, incarnation, step_ix, work, outcome, fsum(weight) AS weight, fsum(share) AS share,
  least(fsum(share), greatest(0, fsum(low))) AS share_low,
  greatest(fsum(share), least(1, fsum(high))) AS share_high
FROM parted
GROUP BY run_id, engine, incarnation, step_ix, work, outcome
