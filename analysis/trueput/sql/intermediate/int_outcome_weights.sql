-- One row per run, kind of work and outcome: the weights by which that work's time is shared out.
-- Where the replay tells which requests an iteration served, the weight is the iteration time that
-- went to them (int_step_shares), in ns. Elsewhere it is what requests of each outcome had computed
-- that were there in the window: uncached prompt tokens, decoded tokens, recomputed tokens. Requests of
-- unknown end are among them; and where the lengths of some are not known, or an engine's record alone
-- leaves a tenth and more unnamed, what iterations scheduled beyond the known ones is of unknown outcome.
-- So is recompute of which no victim is named, unless all requests that were there have one outcome; a victim
-- counts in weight_low where the replay is sure of it.
-- weight_low and weight_high: what the weight must lie between, of the same whole, where cached tokens
-- of requests are unknown and a prefix cache may be on, or where requests were there only in part.
-- Computed once. Few rows, from a long chain of views that is slow to plan when it is read again.
WITH placed AS (
  -- the rule `all` has room for all of its load
  SELECT q.*,
    w.from_ns IS NULL OR (w.window_rule = 'all' AND q.outcome IS DISTINCT FROM 'other_traffic')
      OR coalesce(q.sent_at_ns <= w.to_ns AND q.ended_at_ns >= w.from_ns, true) AS is_there,
    w.from_ns IS NULL OR (w.window_rule = 'all' AND q.outcome IS DISTINCT FROM 'other_traffic')
      OR coalesce(q.sent_at_ns >= w.from_ns AND q.ended_at_ns <= w.to_ns, false) AS is_within
  FROM int_outcomes AS q
  JOIN int_run_windows AS w ON w.run_id = q.run_id
), told AS (
  SELECT
    o.run_id,
    coalesce(o.outcome, 'unknown') AS outcome,
    sum(greatest(0, coalesce(o.prompt_tokens, 0) - coalesce(o.cached_prompt_tokens, 0))) AS prefill,
    -- of a prompt that a cache may hold at least one token is computed; none of it where nothing came back
    sum(CASE WHEN NOT o.is_within OR (o.complete IS DISTINCT FROM true AND coalesce(o.output_tokens, 0) = 0 AND o.ttft_ns IS NULL)
      THEN 0 WHEN o.cached_prompt_tokens IS NULL AND NOT c.cache_is_off THEN least(o.prompt_tokens, 1)
      ELSE greatest(0, coalesce(o.prompt_tokens, 0) - coalesce(o.cached_prompt_tokens, 0)) END) AS prefill_least,
    sum(greatest(0, coalesce(o.output_tokens, 0) - 1)) AS decode,
    sum(CASE WHEN o.is_within THEN greatest(0, coalesce(o.output_tokens, 0) - 1) ELSE 0 END) AS decode_least,
    sum(coalesce(v.recomputed_tokens, 0)) AS recompute,
    sum(CASE WHEN o.is_within AND v.confidence >= 0.9 THEN coalesce(v.recomputed_tokens, 0) ELSE 0 END) AS recompute_least,
    count(*) FILTER (o.prompt_tokens IS NULL) AS prompts_open,
    -- of an aborted request the client's count is what it received: more may have been decoded
    count(*) FILTER (o.output_tokens IS NULL OR (o.complete IS DISTINCT FROM true AND o.engine_status IS DISTINCT FROM 'finished')) AS outputs_open
  FROM placed AS o
  JOIN int_prefix_caches AS c ON c.run_id = o.run_id
  LEFT JOIN raw.request_recompute AS v ON v.run_id = o.run_id AND v.request_id = o.request_id
  WHERE o.is_there AND (o.engine_status IS NOT NULL OR o.output_tokens > 0 OR o.outcome = 'unknown')
  GROUP BY o.run_id, coalesce(o.outcome, 'unknown')
), tokens AS (
  SELECT run_id, outcome, sum(prefill) AS prefill, sum(prefill_least) AS prefill_least, sum(decode) AS decode,
    sum(decode_least) AS decode_least, sum(recompute) AS recompute, sum(recompute_least) AS recompute_least,
    bool_or(is_open) AS is_open, sum(decode_more) AS decode_more
  FROM (
    SELECT run_id, outcome, prefill, prefill_least, decode, decode_least, recompute, recompute_least, outputs_open > 0 AS is_open, 0 AS decode_more
    FROM told
    UNION ALL
    SELECT k.run_id, CASE WHEN k.outcomes = 1 THEN k.outcome ELSE 'unknown' END, 0, 0, 0, 0, x.tokens - k.recompute, 0, false, 0
    FROM (
      SELECT run_id, count(*) AS outcomes, min(outcome) AS outcome, sum(recompute) AS recompute FROM told GROUP BY run_id
    ) AS k
    LEFT JOIN int_recompute AS r ON r.run_id = k.run_id
    -- where nothing says how much it may be, no part of it is anyone's for sure
    CROSS JOIN LATERAL (SELECT coalesce(greatest(r.recomputed_tokens, r.recomputed_tokens_high), 2 * k.recompute + 1) AS tokens) AS x
    WHERE x.tokens > k.recompute
    UNION ALL
    SELECT run_id, 'unknown', CASE WHEN prompts_open > 0 OR prefill_more * 10 > context_tokens THEN prefill_more ELSE 0 END, 0,
      CASE WHEN outputs_open > 0 OR decode_more * 10 > sequences THEN decode_more ELSE 0 END,
      CASE WHEN outputs_open > 0 THEN decode_more ELSE 0 END, 0, 0, false, CASE WHEN outputs_open > 0 THEN decode_more ELSE 0 END
    FROM (
      SELECT s.*, k.prompts_open, k.outputs_open,
        greatest(0, s.context_tokens - k.prefill) AS prefill_more, greatest(0, s.sequences - k.decode) AS decode_more
      FROM (
        SELECT run_id, sum(context_tokens) AS context_tokens, sum(generation_requests) AS sequences FROM int_steps GROUP BY run_id
      ) AS s
      JOIN (
        SELECT run_id, sum(prefill) AS prefill, sum(decode) AS decode, sum(prompts_open) AS prompts_open, sum(outputs_open) AS outputs_open
        FROM told GROUP BY run_id
      ) AS k ON k.run_id = s.run_id
      JOIN int_run_facts AS f ON f.run_id = s.run_id
      -- a client's or a server's record names its requests; an engine's may name only some
      WHERE k.prompts_open > 0 OR k.outputs_open > 0 OR NOT (f.has_client OR f.has_server)
    )
  ) GROUP BY run_id, outcome
), by_tokens AS (
  SELECT run_id, 'prefill' AS work, outcome, prefill AS weight,
    whole_below(coalesce(ratio(prefill_least, prefill_least + sum(prefill) OVER part - prefill) * sum(prefill) OVER part,
      prefill)) AS weight_low,
    whole_above(coalesce(ratio(prefill, prefill + sum(prefill_least) OVER part - prefill_least)
      * sum(prefill) OVER part, prefill)) AS weight_high
  FROM tokens WINDOW part AS (PARTITION BY run_id)
  UNION ALL
  SELECT run_id, 'decode', outcome, decode,
    -- whose the tokens are that no request is known for is open
    CASE WHEN sum(decode_least) OVER part = sum(decode) OVER part THEN decode
      ELSE whole_below(ratio(decode_least, decode_least + sum(decode) OVER part - decode) * sum(decode) OVER part) END
    - CASE WHEN sum(decode) OVER part = decode THEN 0 ELSE decode_more END,
    CASE WHEN sum(decode_least) OVER part = sum(decode) OVER part THEN decode
      ELSE whole_above(ratio(decode, decode + sum(decode_least) OVER part - decode_least) * sum(decode) OVER part) END
    + CASE WHEN is_open THEN sum(decode_more) OVER part ELSE 0 END
  FROM tokens WINDOW part AS (PARTITION BY run_id)
  UNION ALL
  -- what nobody is named for may be of any of them
  SELECT run_id, 'recompute', outcome, recompute,
    -- all of it where no other outcome had anything computed
    CASE WHEN sum(prefill + decode + recompute) OVER part = prefill + decode + recompute THEN recompute
      ELSE recompute_least END,
    CASE WHEN outcome = 'unknown' THEN recompute ELSE sum(recompute) OVER part - (sum(recompute_least) OVER part - recompute_least) END
  FROM tokens WINDOW part AS (PARTITION BY run_id) QUALIFY sum(recompute) OVER part > 0
  UNION ALL
  -- none at all: each has 0
  SELECT run_id, 'recompute', outcome, decode, decode, decode
  FROM tokens WINDOW part AS (PARTITION BY run_id) QUALIFY sum(recompute) OVER part = 0
), by_steps AS (
  SELECT
    k.run_id, k.work, k.outcome,
    whole_nearest(fsum(k.share * CASE k.work WHEN 'prefill' THEN t.prefill_ns WHEN 'decode' THEN t.decode_ns
      ELSE t.recompute_ns END)) AS weight,
    whole_below(fsum(k.share_low * CASE k.work WHEN 'prefill' THEN t.prefill_ns WHEN 'decode' THEN t.decode_ns
      ELSE t.recompute_ns END)) AS weight_low,
    whole_above(fsum(k.share_high * CASE k.work WHEN 'prefill' THEN t.prefill_ns WHEN 'decode' THEN t.decode_ns
      ELSE t.recompute_ns END)) AS weight_high
  FROM int_step_shares AS k
  JOIN int_steps AS t
    ON t.run_id = k.run_id AND t.engine = k.engine AND t.incarnation = k.incarnation
    AND t.step_ix = k.step_ix
  GROUP BY k.run_id, k.work, k.outcome
)
SELECT run_id, work, outcome, weight, least(weight_low, weight) AS weight_low, greatest(weight_high, weight) AS weight_high
FROM by_steps
UNION ALL
SELECT b.run_id, b.work, b.outcome, b.weight, least(b.weight_low, b.weight), greatest(b.weight_high, b.weight)
FROM by_tokens AS b
ANTI JOIN (SELECT DISTINCT run_id, work FROM by_steps WHERE weight > 0) AS s
  ON s.run_id = b.run_id AND s.work = b.work
