-- Whether an engine iteration counts as inside a window; without a window or an instant it does. Its
-- line is printed after it, mostly to the second. Where the window is all of the load, that second is
-- not before the window's first and not after the one that follows its last. A window that cuts the
-- load has iterations on both sides of its ends: there the middle of the second decides.
CREATE OR REPLACE MACRO step_is_inside(rule, logged_at_ns, from_ns, to_ns) AS
  from_ns IS NULL OR logged_at_ns IS NULL OR CASE
    WHEN rule = 'all' THEN logged_at_ns >= from_ns - from_ns % 1000000000 AND logged_at_ns <= to_ns + 1000000000
    ELSE logged_at_ns + CASE WHEN logged_at_ns % 1000000000 = 0 THEN 500000000 ELSE 0 END BETWEEN from_ns AND to_ns END;
