-- The whole number below a sum of shares: what the order of adding does to its last digits does not move it.
CREATE OR REPLACE MACRO whole_below(x) AS CAST(floor(x + 0.001) AS BIGINT);
