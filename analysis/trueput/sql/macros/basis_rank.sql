-- Rank of a basis, 1 the best: measured, reported, inferred, bounded, unknown.
CREATE OR REPLACE MACRO basis_rank(basis) AS
  CASE basis WHEN 'measured' THEN 1 WHEN 'reported' THEN 2 WHEN 'inferred' THEN 3
    WHEN 'bounded' THEN 4 WHEN 'unknown' THEN 5 END;
