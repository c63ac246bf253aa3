-- The whole number above a sum of shares: what the order of adding does to its last digits does not move it.
CREATE OR REPLACE MACRO whole_above(x) AS CAST(ceil(x - 0.001) AS BIGINT);
