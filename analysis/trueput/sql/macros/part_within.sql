-- A part that is known, cut so that it is neither negative nor larger than the room left for it.
-- NULL stays NULL: DuckDB's least and greatest would otherwise skip it.
CREATE OR REPLACE MACRO part_within(part, room) AS
  CASE WHEN part IS NOT NULL THEN least(greatest(0, part), greatest(0, room)) END;
