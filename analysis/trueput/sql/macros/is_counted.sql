-- Whether a GPU operation counts: its times can be, its device is known, and its file is no copy and on the run's clock.
CREATE OR REPLACE MACRO is_counted(quality) AS
  coalesce(quality NOT IN ('implausible', 'no_device', 'copy', 'other_clock'), true);
