-- Time of several devices over a window, in ns: exact, and beyond 64 bits where it must be.
CREATE OR REPLACE MACRO device_time(window_ns, devices) AS CAST(window_ns AS HUGEINT) * devices;
