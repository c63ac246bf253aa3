-- One row per run whose log of iterations tells of a part of its window: what is summed over iterations
-- is at least that, and time without one is not known to be idle.
-- unreached_ns: time of the window that the log does not reach, unreached_ns_most with the seconds of its ends.
-- is_anywhere: work may lack at any time (COVER001, COVER003, a damaged log), so all idle time may be work.
-- Computed once. Few rows, which the ledger reads twice and the rungs once.
SELECT run_id, max(unreached_ns) AS unreached_ns, max(unreached_ns_most) AS unreached_ns_most, bool_or(is_anywhere) AS is_anywhere
FROM (
  SELECT run_id, unreached_ns, unreached_ns_most, false AS is_anywhere FROM int_log_reach WHERE is_in_part
  UNION ALL
  SELECT run_id, 0, 0, true FROM int_engine_coverage WHERE code <> 'COVER002' AND is_log
)
GROUP BY run_id
