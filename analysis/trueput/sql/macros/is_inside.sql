-- Whether an instant lies inside a window. The rule `all` is of everything that its load sent; what
-- has no instant counts as inside.
CREATE OR REPLACE MACRO is_inside(rule, at_ns, from_ns, to_ns) AS
  rule = 'all' OR at_ns IS NULL OR at_ns BETWEEN from_ns AND to_ns;
