-- A span, or NULL where it is negative: instants that contradict each other prove nothing.
CREATE OR REPLACE MACRO real_span(value) AS CASE WHEN value >= 0 THEN value END;
