-- Quotient of two figures; NULL where either is unknown or the divisor is not positive.
CREATE OR REPLACE MACRO ratio(part, whole) AS
  CASE WHEN whole > 0 THEN CAST(part AS DOUBLE) / CAST(whole AS DOUBLE) END;
