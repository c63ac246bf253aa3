-- The number of a child `1_cmpl-x` of a request with n > 1, from 0; NULL for other ids.
CREATE OR REPLACE MACRO child_number(id) AS
  CASE WHEN id >= '0' AND id < ':' THEN TRY_CAST(nullif(regexp_extract(id, '^(\d+)_(?:chat)?cmpl-', 1), '') AS BIGINT) END;
