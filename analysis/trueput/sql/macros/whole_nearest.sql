-- The whole number nearest to a sum of shares, halves up: what the order of adding does to its last digits does not move it.
CREATE OR REPLACE MACRO whole_nearest(x) AS CAST(floor(x + 0.501) AS BIGINT);
