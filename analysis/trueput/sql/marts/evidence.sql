-- One row per run and question: how well the files answer it, from which file, and what would let
-- them answer it better. what_would_improve_it is NULL where nothing known would.
WITH has AS (
  SELECT
    r.run_id,
    f.has_client, f.has_server,
    coalesce(c.timed, 0) AS timed_clients, coalesce(c.gapped, 0) AS gapped_clients, coalesce(c.clients, 0) AS clients,
    coalesce(e.spans, 0) AS spans, coalesce(e.seen, 0) AS engine_requests,
    coalesce(t.steps, 0) AS steps, coalesce(g.operations, 0) AS operations,
    k.run_id IS NOT NULL AS has_telemetry, coalesce(k.basis, 'unknown') AS telemetry_basis,
    coalesce(h.is_blind, false) AS is_blind, coalesce(h.is_partial, false) AS is_partial, coalesce(h.is_astray, false) AS is_astray,
    coalesce(h.is_short, false) AS is_short, coalesce(h.is_bare, false) AS is_bare,
    coalesce(m.computed, 0) AS conservation_counters, coalesce(m.scrapes, 0) AS scrapes,
    v.run_id IS NOT NULL AS has_victims,
    x.preemptions, x.all_preemptions, x.evidence AS preemption_evidence,
    p.slo, w.basis AS window_basis,
    coalesce(w.is_observed, true) AS is_observed, j.run_id IS NOT NULL AS is_beyond,
    z.basis AS recompute_basis, b.basis AS whole_recompute_basis, z.method AS recompute_method,
    l.aggregates, o.ends_open, o.planned, o.checked, u.run_id IS NOT NULL AS finished_only, d.gpu_count, d.is_stated,
    s.unsure, s.unsure_file, y.uncovered, coalesce(ap.is_in_part, false) AS in_part
  FROM raw.runs AS r
  LEFT JOIN int_run_facts AS f ON f.run_id = r.run_id
  LEFT JOIN (
    SELECT run_id, count(*) AS clients, count(ttft_ns) AS timed, count(gaps_ns) AS gapped
    FROM stg_records WHERE vantage = 'client' GROUP BY run_id
  ) AS c ON c.run_id = r.run_id
  LEFT JOIN (
    SELECT run_id, count(*) AS seen, count(*) FILTER (has_span OR queue_ns IS NOT NULL OR scheduled_at_ns IS NOT NULL) AS spans
    FROM int_engine_requests GROUP BY run_id
  ) AS e ON e.run_id = r.run_id
  LEFT JOIN (SELECT run_id, count(*) AS steps FROM raw.engine_steps GROUP BY run_id) AS t ON t.run_id = r.run_id
  LEFT JOIN (SELECT run_id, CAST(sum(operations) AS BIGINT) AS operations FROM int_gpu_op_totals GROUP BY run_id) AS g ON g.run_id = r.run_id
  LEFT JOIN (
    SELECT run_id, basis_name(min(basis_rank(basis))) AS basis FROM int_gpu_telemetry
    WHERE metric IN ('engine_active', 'sm_active', 'tensor_active', 'dram_active')
    GROUP BY run_id
  ) AS k ON k.run_id = r.run_id
  LEFT JOIN (
    SELECT run_id, bool_or(is_blind) AS is_blind, bool_or(is_partial) AS is_partial, bool_or(is_astray) AS is_astray,
      bool_or(unseen_ns > 0) AS is_short, bool_or(lacks_copies) AS is_bare
    FROM int_gpu_hidden GROUP BY run_id
  ) AS h ON h.run_id = r.run_id
  LEFT JOIN (
    SELECT run_id, count(*) FILTER (metric = 'vllm:prompt_tokens_by_source_total') AS computed, count(*) AS scrapes
    FROM int_counter_totals GROUP BY run_id
  ) AS m ON m.run_id = r.run_id
  LEFT JOIN (SELECT DISTINCT run_id FROM raw.request_recompute) AS v ON v.run_id = r.run_id
  LEFT JOIN int_preemptions AS x ON x.run_id = r.run_id
  LEFT JOIN int_all_preemptions AS ap ON ap.run_id = r.run_id
  LEFT JOIN slo_policy AS p ON p.run_id = r.run_id
  LEFT JOIN int_run_windows AS w ON w.run_id = r.run_id
  LEFT JOIN int_beyond_record AS j ON j.run_id = r.run_id
  LEFT JOIN recompute AS z ON z.run_id = r.run_id
  LEFT JOIN raw.run_recompute AS b ON b.run_id = r.run_id
  LEFT JOIN (
    SELECT run_id, count(*) FILTER (NOT detailed) AS aggregates FROM raw.load_sessions GROUP BY run_id
  ) AS l ON l.run_id = r.run_id
  LEFT JOIN (
    SELECT run_id, CAST(sum(complete_open) AS BIGINT) AS ends_open, CAST(sum(planned) AS BIGINT) AS planned,
      CAST(sum(checked) AS BIGINT) AS checked
    FROM int_outcome_counts GROUP BY run_id
  ) AS o ON o.run_id = r.run_id
  LEFT JOIN int_finished_only AS u ON u.run_id = r.run_id
  LEFT JOIN int_devices AS d ON d.run_id = r.run_id
  LEFT JOIN (
    -- one clock alone needs no common scale
    SELECT run_id, count(*) FILTER (clock_uncertainty_ns IS NULL) AS unsure,
      min(source_id) FILTER (clock_uncertainty_ns IS NULL) AS unsure_file
    FROM raw.sources WHERE clock_kind <> 'none' GROUP BY run_id HAVING count(*) > 1
  ) AS s ON s.run_id = r.run_id
  LEFT JOIN (
    SELECT run_id, min(text) AS uncovered FROM int_engine_coverage GROUP BY run_id
  ) AS y ON y.run_id = r.run_id
), answers AS (
  SELECT run_id, unnest([
    {'question': 'how requests ended',
     'best_basis': CASE WHEN ends_open = planned THEN 'unknown' WHEN ends_open > 0 OR finished_only THEN 'bounded'
       WHEN (clients > 0 OR has_server) AND checked > 0 THEN 'measured' WHEN clients > 0 OR engine_requests > 0 THEN 'reported'
       WHEN aggregates > 0 THEN 'reported' WHEN scrapes > 0 THEN 'bounded' ELSE 'unknown' END,
     'source': CASE WHEN has_server THEN 'client and server records' WHEN clients > 0 AND engine_requests > 0 THEN 'client records and engine record'
       WHEN clients > 0 THEN 'client records (claims)' WHEN has_client THEN 'client records'
       WHEN finished_only THEN 'spans, which only finished requests leave' WHEN engine_requests > 0 THEN 'engine record'
       WHEN aggregates > 0 THEN 'client summary (claims)' WHEN scrapes > 0 THEN 'histograms' END,
     'improve': CASE WHEN clients = 0 AND aggregates > 0 THEN 'run the client with --save-detailed'
       WHEN clients = 0 AND NOT coalesce(has_server, false) THEN 'add the load client''s result (vllm bench serve --save-result --save-detailed)'
       WHEN engine_requests = 0 AND NOT coalesce(has_server, false)
         THEN 'add the server log with --enable-log-requests, or --otlp-traces-endpoint, so that claims can be checked' END},
    {'question': 'goodput',
     'best_basis': CASE WHEN slo IS NULL OR NOT is_observed THEN 'unknown'
       WHEN is_beyond AND (timed_clients > 0 OR spans > 0) THEN 'bounded'
       WHEN timed_clients > 0 AND engine_requests = 0 AND NOT coalesce(has_server, false) THEN 'reported'
       WHEN timed_clients > 0 THEN 'measured' WHEN spans > 0 THEN 'reported'
       WHEN scrapes > 0 THEN 'bounded' ELSE 'unknown' END,
     'source': CASE WHEN slo IS NULL OR NOT is_observed THEN NULL
       WHEN timed_clients > 0 THEN 'client records' WHEN spans > 0 THEN 'spans' WHEN scrapes > 0 THEN 'histograms' END,
     'improve': CASE WHEN slo IS NULL THEN 'give an objective with --slo, for example --slo ttft=500ms,tpot=50ms'
       WHEN NOT is_observed THEN 'ask for a window that the load reaches into'
       WHEN timed_clients = 0 AND spans = 0 THEN 'run the client with --save-detailed, or the engine with --otlp-traces-endpoint' END},
    {'question': 'queueing, prefill and decode of each request',
     'best_basis': CASE WHEN spans > 0 THEN 'reported' ELSE 'unknown' END,
     'source': CASE WHEN spans > 0 THEN 'spans' END,
     'improve': CASE WHEN spans = 0 THEN 'run the engine with --otlp-traces-endpoint and keep the spans' END},
    {'question': 'preemptions',
     'best_basis': CASE WHEN preemptions IS NOT NULL THEN 'reported' ELSE 'unknown' END,
     'source': preemption_evidence,
     'improve': CASE WHEN in_part AND all_preemptions IS NULL THEN 'scrape /metrics from before the first request until after the last'
       WHEN all_preemptions IS NULL THEN 'scrape /metrics during the run (vllm:num_preemptions_total)' END},
    {'question': 'recomputed tokens',
     'best_basis': CASE WHEN uncovered IS NOT NULL THEN 'unknown' ELSE coalesce(recompute_basis, 'unknown') END,
     'source': CASE WHEN recompute_method = 'annotations' THEN 'step annotations of a profile: tokens beyond what decoding needs'
       ELSE nullif(recompute_method, 'none') END,
     'improve': CASE WHEN uncovered IS NOT NULL THEN concat('keep the engine''s whole record: ', uncovered)
       WHEN steps = 0 THEN 'run the engine with --enable-logging-iteration-details'
       WHEN conservation_counters = 0 THEN 'scrape /metrics during the run'
       WHEN in_part AND recompute_basis = 'bounded' THEN 'scrape /metrics from before the first request until after the last'
       WHEN recompute_basis = 'bounded' AND whole_recompute_basis <> 'bounded' THEN
         'ask for the whole load: which side of this window they lie on cannot be told'
       WHEN recompute_basis = 'bounded' THEN 'aborted requests blur the balance; a run without aborts is exact' END},
    {'question': 'which requests were preempted, and what it cost them',
     'best_basis': CASE WHEN preemptions = 0 THEN 'reported' WHEN has_victims THEN 'inferred' ELSE 'unknown' END,
     'source': CASE WHEN preemptions = 0 THEN 'no preemption was counted' WHEN has_victims AND gapped_clients > 0 THEN 'client streams aligned to iterations'
       WHEN has_victims THEN 'iterations replayed from the log alone' END,
     'improve': CASE WHEN preemptions = 0 OR has_victims THEN NULL
       WHEN steps = 0 THEN 'run the engine with --enable-logging-iteration-details'
       WHEN gapped_clients = 0 THEN 'run the client with --save-detailed (token gaps)'
       WHEN spans = 0 THEN 'run the engine with --otlp-traces-endpoint and keep the spans' END},
    {'question': 'GPU activity',
     'best_basis': CASE WHEN is_blind OR is_partial OR is_astray OR is_short THEN 'bounded' WHEN operations > 0 THEN 'measured'
       WHEN is_beyond AND NOT has_telemetry AND steps > 0 AND uncovered IS NULL THEN 'bounded'
       WHEN steps > 0 AND uncovered IS NULL THEN 'reported' WHEN has_telemetry THEN telemetry_basis ELSE 'unknown' END,
     'source': CASE WHEN is_astray THEN 'profile whose clock is not that of the log: the window may be another one'
       WHEN is_partial THEN 'profile that lost operations: unions are at least, idle at most'
       WHEN is_blind THEN 'profile without the kernels of graph launches: unions are at least, idle at most'
       WHEN is_short THEN 'profile that lost a few operations: unions are at least'
       WHEN is_bare THEN 'profile of kernels without copies: gpu_op_union is at least, idle at most'
       WHEN operations > 0 THEN 'profile' WHEN has_telemetry THEN 'telemetry: shares of time in which something ran, not what ran'
       WHEN steps > 0 THEN 'engine steps: time in iterations, not GPU time' END,
     'improve': CASE WHEN is_astray THEN 'record profile and log on machines whose clocks agree'
       WHEN is_partial THEN 'give a profile that holds every operation: `trueput doctor` says what this one lost'
       WHEN is_blind THEN 'profile every kernel of a graph (nsys: --cuda-graph-trace=node), or run with --enforce-eager'
       WHEN is_bare THEN 'give the trace of memory copies beside that of kernels'
       WHEN uncovered IS NOT NULL THEN concat('keep the engine''s whole record: ', uncovered)
       WHEN operations = 0 AND steps = 0 AND NOT has_telemetry THEN 'run the engine with --enable-logging-iteration-details, or under a profiler' END},
    {'question': 'figures per GPU',
     'best_basis': CASE WHEN gpu_count IS NOT NULL THEN 'reported' ELSE 'unknown' END,
     'source': CASE WHEN is_stated THEN 'run.toml' WHEN gpu_count IS NOT NULL THEN 'the parallel sizes of the engine' END,
     'improve': CASE WHEN gpu_count IS NULL THEN 'put gpu_count into run.toml' END},
    {'question': 'clocks on one scale',
     'best_basis': CASE WHEN coalesce(unsure, 0) = 0 THEN 'measured' ELSE 'unknown' END,
     'source': CASE WHEN unsure IS NULL THEN 'one clock or none: nothing to align' WHEN unsure = 0 THEN 'see table sources' ELSE unsure_file END,
     'improve': CASE WHEN coalesce(unsure, 0) > 0 THEN 'put timezone and [[clock_anchors]] into run.toml' END}
  ]) AS answer
  FROM has
)
SELECT run_id, answer.question AS question, answer.best_basis AS best_basis,
  answer.source AS source, answer.improve AS what_would_improve_it
FROM answers
