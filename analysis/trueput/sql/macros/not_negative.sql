-- A figure cut at 0 from below; NULL stays NULL.
CREATE OR REPLACE MACRO not_negative(value) AS CASE WHEN value IS NOT NULL THEN greatest(0, value) END;
