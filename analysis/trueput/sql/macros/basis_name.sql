-- Name of a basis by its rank; the inverse of basis_rank.
CREATE OR REPLACE MACRO basis_name(rank) AS
  ['measured', 'reported', 'inferred', 'bounded', 'unknown'][rank];
