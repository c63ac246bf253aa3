-- One row per run: the idle time of its ledger, split by whether the engine held any request.
-- Formula: the window less the union of all requests' stays in the engine (arrival to end, other traffic
-- included) is time without work; idle up to that, over all devices, is queue_empty, the rest waited.
-- A stay begins at the later of arrival and send. Low and high leave room for what no file tells:
-- the way to the engine with tokenising, the way back, and an abort that the engine notices after its
-- client left. Spans show how long these are at most (their queue, prefill and decode begin when the
-- engine has the request); without spans a request is there before its first token, and the way back is no
-- longer than the time to that. An instant that only a log gives lies within the second it prints: a
-- send or an end that the client saw in that second stands for it, else low and high take its ends.
-- Unattributed time may lie where the queue was empty: the low leaves room for it. Where no file reaches
-- nothing says that no request was there.
-- Null rule: where no request has instants all parts are NULL; where a request has no known end, it may
-- have stayed to the end of the window, and the split has bounds only; so it has where the bounds leave all of idle open.
WITH seen AS (
  SELECT q.run_id, w.from_ns, w.to_ns,
    greatest(q.e_arrived_at_ns, q.sent_at_ns) AS start_ns,
    CASE WHEN NOT q.e_arrival_is_exact THEN q.e_arrived_at_ns + 999999999 END AS arrival_second_ends_ns,
    coalesce(q.first_token_at_ns, q.sent_at_ns + q.ttft_ns) AS first_token_ns,
    coalesce(q.ttft_ns, 0) AS way_ns, q.ruling = 'complete' AS is_complete,
    -- what a span says of its time in the engine, without the way there
    CASE WHEN q.e_arrival_is_exact AND q.e_end_is_exact THEN q.queue_ns + q.prefill_ns + q.decode_ns END AS inside_ns, q.e_arrived_at_ns,
    q.e_ended_at_ns AS e_end_ns, q.ended_at_ns AS end_ns, q.e_finished IS TRUE AS is_finished, q.sent_at_ns,
    -- the second that an end was printed in; NULL where a span gave it, or no line did
    CASE WHEN NOT q.e_end_is_exact THEN q.e_ended_at_ns + 999999999 END AS second_ends_ns
  FROM int_ruled AS q
  JOIN int_run_windows AS w ON w.run_id = q.run_id
  WHERE coalesce(q.e_arrived_at_ns, q.sent_at_ns) IS NOT NULL AND w.from_ns IS NOT NULL
    -- where the engine's own record exists, what it never admitted was never in it
    AND (q.in_engine OR q.run_id NOT IN (SELECT e.run_id FROM int_engine_requests AS e))
    AND NOT (q.ruling IN ('rejected', 'not_sent') AND q.ended_at_ns IS NULL AND q.e_ended_at_ns IS NULL)
), placed AS (
  SELECT *,
    -- an abort is logged by the engine after the client left: the later of what both sides say
    -- (least and greatest skip what is not known)
    CASE WHEN second_ends_ns IS NULL AND is_finished THEN coalesce(e_end_ns, end_ns)
      WHEN is_finished THEN greatest(e_end_ns, least(end_ns, second_ends_ns))
      ELSE greatest(e_end_ns, end_ns) END AS stop_ns,
    -- whether no client saw the end in the second that the log prints
    coalesce(second_ends_ns IS NOT NULL AND end_ns NOT BETWEEN e_end_ns + 1 AND second_ends_ns, false) AS is_loose
  FROM seen
), ways AS (
  -- of the run: to the engine at most, back at most, and from the last token to a span's end
  SELECT run_id, max(e_end_ns - inside_ns - sent_at_ns) AS there_ns, max(end_ns - e_end_ns) AS back_ns,
    min(e_end_ns - inside_ns - e_arrived_at_ns) AS hand_over_ns
  FROM placed WHERE inside_ns IS NOT NULL AND is_complete GROUP BY run_id
), cases AS (
  SELECT p.run_id, unnest([
    {'reading': 'point', 'start': start_ns, 'stop': stop_ns},
    {'reading': 'low',
      'start': greatest(start_ns, coalesce(e_end_ns - inside_ns,
        least(arrival_second_ends_ns, first_token_ns, CASE WHEN start_ns = sent_at_ns THEN start_ns + not_negative(there_ns) END))),
      'stop': least(stop_ns, CASE WHEN inside_ns IS NOT NULL THEN greatest(start_ns + inside_ns, e_end_ns - not_negative(hand_over_ns))
        WHEN is_loose THEN e_end_ns WHEN is_finished OR is_complete THEN greatest(e_end_ns, end_ns - coalesce(not_negative(back_ns), way_ns))
        ELSE stop_ns END)},
    {'reading': 'high', 'start': start_ns,
      'stop': CASE WHEN stop_ns IS NULL THEN to_ns WHEN is_loose THEN greatest(stop_ns, second_ends_ns)
        WHEN is_finished OR is_complete THEN stop_ns
        ELSE coalesce(least(second_ends_ns, stop_ns + there_ns), stop_ns + way_ns) END}
  ]) AS stay, from_ns, to_ns, stop_ns
  FROM placed AS p
  LEFT JOIN ways AS w ON w.run_id = p.run_id
), stays AS (
  SELECT run_id, stay.reading AS reading, greatest(stay.start, from_ns) AS start_ns, least(stay.stop, to_ns) AS end_ns
  FROM cases WHERE stay.stop IS NOT NULL
), reached AS (
  SELECT run_id, reading, start_ns, end_ns,
    max(end_ns) OVER (PARTITION BY run_id, reading ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
      AS reached_ns
  FROM stays WHERE end_ns > start_ns
), unions AS (
  SELECT run_id, reading, sum(greatest(0, end_ns - greatest(start_ns, coalesce(reached_ns, start_ns)))) AS present_ns
  FROM reached GROUP BY run_id, reading
), present AS (
  SELECT run_id,
    coalesce(max(present_ns) FILTER (reading = 'point'), 0) AS present_ns,
    coalesce(max(present_ns) FILTER (reading = 'low'), 0) AS low_ns,
    coalesce(max(present_ns) FILTER (reading = 'high'), 0) AS high_ns
  FROM unions GROUP BY run_id
), known AS (
  SELECT run_id, bool_and(stop_ns IS NOT NULL) AS ends_are_known FROM placed GROUP BY run_id
), idle AS (
  SELECT run_id, max(window_ns) AS window_ns, max(devices) AS devices,
    sum(time_ns) FILTER (work = 'idle') AS idle_ns,
    sum(time_ns_low) FILTER (work = 'idle') AS idle_low,
    sum(time_ns_high) FILTER (work = 'idle') AS idle_high,
    coalesce(sum(time_ns_high) FILTER (work = 'unattributed'), 0) AS unattributed_ns
  FROM gpu_ledger GROUP BY run_id HAVING idle_ns IS NOT NULL
), parts AS (
  SELECT i.*, p.low_ns < p.high_ns OR i.idle_low < i.idle_high AS is_loose,
    k.ends_are_known AND p.run_id IS NOT NULL AS is_known, p.run_id IS NOT NULL AS has_stays,
    (i.window_ns - coalesce(b.beyond_ns, 0) - p.present_ns) * i.devices AS free_ns,
    (i.window_ns - p.high_ns) * i.devices - i.unattributed_ns AS free_low,
    (i.window_ns - p.low_ns) * i.devices AS free_high
  FROM idle AS i
  LEFT JOIN present AS p ON p.run_id = i.run_id
  LEFT JOIN known AS k ON k.run_id = i.run_id
  LEFT JOIN int_beyond_record AS b ON b.run_id = i.run_id
), told AS (
  SELECT * REPLACE (is_known AND NOT coalesce(is_loose AND idle_ns > 0 AND part_within(idle_low, free_low) = 0
    AND part_within(idle_high, free_high) >= idle_ns, false) AS is_known)
  FROM parts
)
SELECT
  run_id,
  CAST(idle_ns AS BIGINT) AS idle_ns,
  CASE WHEN is_known THEN CAST(part_within(idle_ns, free_ns) AS BIGINT) END AS queue_empty_ns,
  CASE WHEN has_stays THEN CAST(part_within(idle_low, free_low) AS BIGINT) END AS queue_empty_ns_low,
  CASE WHEN has_stays THEN CAST(part_within(idle_high, free_high) AS BIGINT) END AS queue_empty_ns_high,
  CASE WHEN is_known THEN CAST(idle_ns - part_within(idle_ns, free_ns) AS BIGINT) END AS work_waiting_ns,
  CASE WHEN has_stays THEN CAST(idle_low - part_within(idle_low, free_high) AS BIGINT) END AS work_waiting_ns_low,
  CASE WHEN has_stays THEN CAST(idle_high - part_within(idle_high, free_low) AS BIGINT) END AS work_waiting_ns_high,
  CASE WHEN NOT has_stays THEN 'unknown' WHEN is_loose OR NOT is_known THEN 'bounded' ELSE 'inferred' END AS basis
FROM told
