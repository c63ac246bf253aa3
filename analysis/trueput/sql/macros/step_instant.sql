-- Where a line of an engine's log stands in time: the middle of its second, as most are printed to the
-- second. What may be of the load (see step_is_inside) is not before its first instant nor after its
-- last. So each line has one place, and windows that follow each other share the load's lines out.
CREATE OR REPLACE MACRO step_instant(logged_at_ns, first_ns, last_ns) AS
  CASE WHEN logged_at_ns >= first_ns - first_ns % 1000000000 AND logged_at_ns <= last_ns + 1000000000
    THEN least(greatest(logged_at_ns + CASE WHEN logged_at_ns % 1000000000 = 0 THEN 500000000 ELSE 0 END, first_ns), last_ns)
    ELSE logged_at_ns + CASE WHEN logged_at_ns % 1000000000 = 0 THEN 500000000 ELSE 0 END END;
