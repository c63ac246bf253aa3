-- Whether an end of a window that cuts the load falls into the time in which an iteration can have
-- run: from its printed second, less the iteration's own time, to the end of that second. A log with
-- finer times leaves the iteration's own time alone. Then it may lie on either side of that end.
CREATE OR REPLACE MACRO step_is_divided(rule, logged_at_ns, elapsed_ns, from_ns, until_ns, first_ns, last_ns) AS
  coalesce(rule <> 'all' AND (
    (from_ns > first_ns AND from_ns > logged_at_ns - coalesce(elapsed_ns, 0)
      AND from_ns < logged_at_ns + CASE WHEN logged_at_ns % 1000000000 = 0 THEN 1000000000 ELSE 0 END)
    OR (until_ns < last_ns AND until_ns > logged_at_ns - coalesce(elapsed_ns, 0)
      AND until_ns < logged_at_ns + CASE WHEN logged_at_ns % 1000000000 = 0 THEN 1000000000 ELSE 0 END)), false);
