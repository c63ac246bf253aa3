-- A count that was kept as a float; NULL beyond 2^53, where floats are no longer exact.
CREATE OR REPLACE MACRO exact_count(x) AS CASE WHEN abs(x) <= 9007199254740992.0 THEN x END;
