-- The id a client can know: children `0_cmpl-x` of a request with n > 1 are folded into it.
-- Only an id that begins with a digit can be such a child; the guard keeps the expression off the
-- rest, which is nearly all of a long run.
CREATE OR REPLACE MACRO external_id(id) AS
  CASE WHEN id >= '0' AND id < ':' THEN regexp_replace(id, '^\d+_((?:chat)?cmpl-)', '\1') ELSE id END;
