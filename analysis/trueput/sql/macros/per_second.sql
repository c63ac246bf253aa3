-- Amount per second of a span given in nanoseconds; NULL where the span is unknown or empty.
CREATE OR REPLACE MACRO per_second(amount, span_ns) AS
  CASE WHEN span_ns > 0 THEN CAST(amount AS DOUBLE) * 1000000000.0 / CAST(span_ns AS DOUBLE) END;
