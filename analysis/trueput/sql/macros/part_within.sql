-- A part that is known, cut so that it is neither negative nor larger than the room left for it.
-- NULL stays NULL, and without room nothing is left. Comparisons cost less than least and greatest.
CREATE OR REPLACE MACRO part_within(part, room) AS
  CASE WHEN part <= 0 THEN 0 WHEN room >= part THEN part WHEN part IS NULL THEN NULL
    WHEN room > 0 THEN room ELSE 0 END;
