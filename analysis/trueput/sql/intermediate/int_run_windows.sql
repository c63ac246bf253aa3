-- One row per run: the window over all its load sessions, for engine-wide figures.
-- slack_ns: how far apart its ends may lie from where they are put, both together; open_end_ns: as far as that is
-- because a client does not tell when it gave requests up.
-- Computed once. One row per run, from a long chain of views that most others read.
SELECT
  run_id,
  -- `all` only where every session's window is (it sorts first)
  max(window_rule) AS window_rule,
  max(asked_rule) AS asked_rule,
  min(origin_ns) AS origin_ns,
  min(from_ns) AS from_ns,
  max(to_ns) AS to_ns,
  max(until_ns) AS until_ns,
  min(first_ns) AS first_ns,
  max(last_ns) AS last_ns,
  bool_or(is_observed) AS is_observed,
  coalesce(max(to_ns) - min(from_ns), max(window_ns)) AS window_ns,
  coalesce(max(window_ns_most - window_ns_least), 0) AS slack_ns,
  coalesce(max(open_end_ns), 0) AS open_end_ns,
  basis_name(max(basis_rank(basis))) AS basis
FROM int_windows
GROUP BY run_id
