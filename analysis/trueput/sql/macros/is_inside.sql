-- Whether an instant lies inside a window. The rule `all` is of everything that its load sent. In a
-- window that cuts the load lies only what is known to: what has no instant is in none.
CREATE OR REPLACE MACRO is_inside(rule, at_ns, from_ns, until_ns) AS
  rule = 'all' OR coalesce(at_ns BETWEEN from_ns AND until_ns, false);
