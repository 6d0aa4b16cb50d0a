-- Queries about a day that is played again: where everybody was, what was wrong, what runs differ in.

-- name: day_span
-- One row: the oldest and the newest window that are stored
SELECT first_at, last_at FROM serving.day_span

-- name: day_hours(day, tz)
-- A local day by hour of the roll-up: vehicles, and how many of them were moving on average
SELECT bucket AS hour, count(*) AS vehicles, sum(moving_s) / 3600 AS moving
FROM serving.vehicle_hour
WHERE bucket >= %(day)s::date::timestamp AT TIME ZONE %(tz)s
  AND bucket < (%(day)s::date + 1)::timestamp AT TIME ZONE %(tz)s
GROUP BY 1 ORDER BY 1

-- name: day_windows(day, tz)
-- One row: the first window of a local day, and how many vehicles the service knows
SELECT (SELECT min(window_start) FROM serving.vehicle_window
        WHERE window_start >= %(day)s::date::timestamp AT TIME ZONE %(tz)s
          AND window_start < (%(day)s::date + 1)::timestamp AT TIME ZONE %(tz)s) AS first_at,
       (SELECT count(*) FROM serving.fleet_latest) AS vehicles

-- name: places(since, until, step_s, window_s)
-- Windows that end on a whole step in [since, until], with the place of their last sample; ``since`` is one.
-- Only those are read that begin ``window_s``, or the length of a window that begins on a step, before one
WITH step AS (
    SELECT generate_series(%(since)s::timestamptz, %(until)s, make_interval(secs => %(step_s)s)) AS at
), length AS (
    SELECT make_interval(secs => %(window_s)s) AS length
    UNION SELECT window_end - window_start FROM serving.vehicle_window
    WHERE window_start = ANY(ARRAY(SELECT at FROM step))
)
SELECT vehicle_id, (extract(epoch FROM window_end) * 1000)::bigint AS at_ms, lat_deg, lon_deg,
       heading_deg, speed_last_kmh AS speed_kmh, ignition_on
FROM serving.vehicle_window
WHERE window_start >= %(since)s::timestamptz - INTERVAL '5 minutes' AND window_start < %(until)s
  AND window_start = ANY(ARRAY(SELECT step.at - length.length FROM step, length))
  AND window_end = ANY(ARRAY(SELECT at FROM step))
  AND lat_deg IS NOT NULL AND lon_deg IS NOT NULL
LIMIT 200000

-- name: places_before(at, wanted)
-- The last place of each vehicle before a moment, at most two hours old; nothing unless ``wanted``
SELECT v.vehicle_id, (extract(epoch FROM w.window_end) * 1000)::bigint AS at_ms, w.lat_deg, w.lon_deg,
       w.heading_deg, w.speed_last_kmh AS speed_kmh, w.ignition_on
FROM serving.fleet_latest v
CROSS JOIN LATERAL (
    SELECT window_end, lat_deg, lon_deg, heading_deg, speed_last_kmh, ignition_on
    FROM serving.vehicle_window w
    WHERE w.vehicle_id = v.vehicle_id AND w.window_start < %(at)s
      AND w.window_start >= %(at)s::timestamptz - INTERVAL '2 hours'
      AND w.lat_deg IS NOT NULL AND w.lon_deg IS NOT NULL
    ORDER BY w.window_start DESC LIMIT 1
) w
WHERE %(wanted)s
LIMIT 200000

-- name: alerts_between(since, until)
-- Alerts that were active at some moment of [since, until], the gravest first, as the player takes them
SELECT vehicle_id AS vehicle, severity, (extract(epoch FROM opened_at) * 1000)::bigint AS "from",
       (extract(epoch FROM cleared_at) * 1000)::bigint AS "to"
FROM serving.alert
WHERE opened_at <= %(until)s AND (cleared_at IS NULL OR cleared_at >= %(since)s)
ORDER BY array_position(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'], severity), opened_at DESC
LIMIT 2000

-- name: verdicts
-- what the last comparisons of shadow runs with live found, the newest run first
SELECT * FROM serving.replay_verdict ORDER BY compared_at DESC, run_id, place LIMIT 400
