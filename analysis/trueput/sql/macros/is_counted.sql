-- Whether a GPU operation counts: its times can be, its device is known, its file holds it once, is no copy and on the
-- run's clock.
CREATE OR REPLACE MACRO is_counted(quality) AS
  (quality IS NULL OR quality NOT IN ('implausible', 'no_device', 'duplicate', 'copy', 'other_clock'));
