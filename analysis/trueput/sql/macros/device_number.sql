-- A number for a device of a run, for partitions of many rows; see place_number.
CREATE OR REPLACE MACRO device_number(run_id, device_key) AS xor(hash(run_id), hash(hash(device_key)));
