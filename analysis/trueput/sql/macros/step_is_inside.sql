-- Whether what an engine logged to the second counts as inside a window. Where the window is all of
-- the load, its second is not before that of the load's first instant and not after the one that
-- follows its last; without a window or an instant it counts. A window that cuts the load has
-- something on both sides of its ends: there step_instant decides, and what has no instant is in none.
CREATE OR REPLACE MACRO step_is_inside(rule, logged_at_ns, from_ns, until_ns, first_ns, last_ns) AS
  CASE WHEN rule = 'all' THEN from_ns IS NULL OR logged_at_ns IS NULL OR (
      logged_at_ns >= from_ns - from_ns % 1000000000
      AND (logged_at_ns <= least(until_ns, last_ns) + 1000000000 OR logged_at_ns <= until_ns))
    ELSE coalesce(step_instant(logged_at_ns, first_ns, last_ns) BETWEEN from_ns AND until_ns, false) END;
