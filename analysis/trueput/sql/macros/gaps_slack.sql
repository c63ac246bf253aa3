-- What a client's time after the first chunk may exceed the sum of its gaps by, in ns: 5 ms and one
-- mean gap, since a client may stop its clock at the end of the stream, after its last chunk; and
-- 2 %, or half a millisecond a gap where these were cut to milliseconds.
CREATE OR REPLACE MACRO gaps_slack(span_ns, gaps) AS
  5e6 + span_ns / (gaps + 1) + greatest(0.02 * span_ns, 5e5 * gaps);
