-- A number for a process of a file of a run: equal places, equal numbers. Where process_key is NULL it
-- stands for no process, and the caller leaves it out.
-- That two of a million places share one of the 64-bit numbers has odds of one in 40 million. A join of
-- many rows by number costs a fraction of one by three texts.
CREATE OR REPLACE MACRO place_number(run_id, source_id, process_key) AS hash(run_id, source_id, process_key);
