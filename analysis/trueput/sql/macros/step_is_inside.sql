-- Whether what an engine logged to the second counts as inside a window. Where the window is all of
-- the load, its second is not before that of the load's first instant and not after the one that
-- follows its last; without a window or an instant it counts. A window that cuts the load has
-- something on both sides of its ends: there the middle of the second decides, and what has no instant
-- is in none. What may be of the load is not before its first instant nor after its last: so each line
-- has one place, and windows that follow each other share the load's lines out.
CREATE OR REPLACE MACRO step_is_inside(rule, logged_at_ns, from_ns, until_ns, first_ns, last_ns) AS
  CASE WHEN rule = 'all' THEN from_ns IS NULL OR logged_at_ns IS NULL OR (
      logged_at_ns >= from_ns - from_ns % 1000000000
      AND (logged_at_ns <= least(until_ns, last_ns) + 1000000000 OR logged_at_ns <= until_ns))
    ELSE coalesce(
      least(
        greatest(
          logged_at_ns + CASE WHEN logged_at_ns % 1000000000 = 0 THEN 500000000 ELSE 0 END,
          CASE WHEN logged_at_ns >= first_ns - first_ns % 1000000000 THEN first_ns ELSE logged_at_ns END),
        CASE WHEN logged_at_ns <= last_ns + 1000000000 AND logged_at_ns >= first_ns - first_ns % 1000000000
          THEN last_ns ELSE logged_at_ns + 500000000 END)
      BETWEEN from_ns AND until_ns, false) END;
