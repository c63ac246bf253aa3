-- Nanoseconds as seconds.
CREATE OR REPLACE MACRO seconds(ns) AS CAST(ns AS DOUBLE) / 1000000000.0;
