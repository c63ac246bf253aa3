-- Whether an instant that a log prints to the second may lie inside a window that is shorter than a
-- second, and outside of it: the window is a part of that second.
CREATE OR REPLACE MACRO is_undecided(at_ns, from_ns, until_ns) AS
  coalesce(until_ns - from_ns < 999999999 AND at_ns % 1000000000 = 0
    AND at_ns <= until_ns AND at_ns + 999999999 >= from_ns, false);
