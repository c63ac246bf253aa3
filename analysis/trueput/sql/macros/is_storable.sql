-- Whether an amount of ns (HUGEINT) fits a 64-bit column. A window whose device time does not fit is
-- centuries long: its files are wrong, and it has no ledger.
CREATE OR REPLACE MACRO is_storable(ns) AS ns BETWEEN -9223372036854775807 AND 9223372036854775807;
