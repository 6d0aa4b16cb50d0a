-- Queries about one vehicle: the span of time they are about, history, signals, trends, trips, quality.

-- name: vehicle_extent(vehicle_id)
-- From when to when there is data, and how much, by days, or by windows while no day is rolled up; or no row
SELECT min(d.first_event) AS first_event, greatest(max(d.last_event), max(l.event_time)) AS last_event,
       sum(d.frames)::bigint AS frames, sum(d.distance_m) / 1000 AS distance_km,
       sum(d.windows)::bigint AS windows
FROM serving.vehicle_day d LEFT JOIN serving.fleet_latest l USING (vehicle_id)
WHERE d.vehicle_id = %(vehicle_id)s HAVING count(*) > 0
UNION ALL
SELECT first_event, last_event, frames, distance_km, windows FROM serving.vehicle_summary
WHERE vehicle_id = %(vehicle_id)s
  AND NOT EXISTS (SELECT FROM serving.vehicle_day WHERE vehicle_id = %(vehicle_id)s)

-- name: vehicle_trace(vehicle_id, start, end)
-- The last position of each window of the span's last 7 days, ``step_s`` apart; over 3,000 every n-th is kept
SELECT window_start, lat_deg, lon_deg, heading_deg, speed_mean_kmh, every * window_s AS step_s
FROM (SELECT *, row_number() OVER (ORDER BY window_start) AS place,
             ceil(count(*) OVER () / 3000::double precision)::integer AS every,
             extract(epoch FROM window_end - window_start)::integer AS window_s
      FROM serving.vehicle_window
      WHERE vehicle_id = %(vehicle_id)s AND window_start < %(end)s
        AND window_start >= greatest(%(start)s, %(end)s - INTERVAL '7 days')
        AND lat_deg IS NOT NULL AND lon_deg IS NOT NULL) w
WHERE place %% every = 0
ORDER BY window_start

-- name: signals(vehicle_id, until)
-- One row: the newest minute of windows up to ``until``; null for what the vehicle does not send
WITH newest AS (
    SELECT max(window_start) AS window_start FROM serving.vehicle_window
    WHERE vehicle_id = %(vehicle_id)s AND window_start <= %(until)s
      AND window_start > %(until)s - INTERVAL '30 minutes'
)
SELECT max(coolant_max_c) AS coolant_max_c, -max(oil_shortfall_max_kpa) AS oil_margin_kpa,
       avg(battery_running_v) AS battery_running_v, avg(battery_rest_v) AS battery_rest_v,
       max(tyre_temp_max_c) AS tyre_temp_max_c, max(brake_pad_wear_max_pct) AS brake_pad_wear_max_pct,
       avg(fuel_trim_mean_pct) AS fuel_trim_mean_pct, max(dpf_soot_max_pct) AS dpf_soot_max_pct,
       max(cell_temp_max_c) AS cell_temp_max_c, max(cell_spread_rest_mv) AS cell_spread_rest_mv,
       max(dtc_count) AS dtc_count, max(window_end) AS until
FROM serving.vehicle_window
WHERE vehicle_id = %(vehicle_id)s AND window_start <= %(until)s
  AND window_start > %(until)s - INTERVAL '31 minutes'
  AND window_start > (SELECT window_start FROM newest) - INTERVAL '1 minute'

-- name: trends(vehicle_id)
-- Where slow quantities are heading, those nearest to their threshold first
SELECT * FROM serving.vehicle_trend WHERE vehicle_id = %(vehicle_id)s
ORDER BY days_to_threshold NULLS LAST, metric LIMIT 50

-- name: trend_hours(vehicle_id, metric, start, end)
-- The hours that a trend's line goes through, each with the ``value`` of the metric's column
SELECT bucket, value
FROM (SELECT bucket, CASE %(metric)s::text
          WHEN 'tyre_fl' THEN tyre_fl_kpa20 WHEN 'brake_pad_fl' THEN brake_pad_wear_fl_pct
          WHEN 'tyre_fr' THEN tyre_fr_kpa20 WHEN 'brake_pad_fr' THEN brake_pad_wear_fr_pct
          WHEN 'tyre_rl' THEN tyre_rl_kpa20 WHEN 'brake_pad_rl' THEN brake_pad_wear_rl_pct
          WHEN 'tyre_rr' THEN tyre_rr_kpa20 WHEN 'brake_pad_rr' THEN brake_pad_wear_rr_pct
          WHEN 'battery_rest' THEN battery_rest_v WHEN 'dpf_soot' THEN dpf_soot_max_pct
          WHEN 'cell_spread_rest' THEN cell_spread_rest_mv END AS value
      FROM serving.vehicle_hour
      WHERE vehicle_id = %(vehicle_id)s AND bucket >= %(start)s AND bucket <= %(end)s) h
WHERE value IS NOT NULL ORDER BY bucket LIMIT 3000

-- name: trips(vehicle_id, start, end)
-- Trips that began in the span, the newest first
SELECT * FROM serving.trip
WHERE vehicle_id = %(vehicle_id)s AND started_at >= %(start)s AND started_at < %(end)s
ORDER BY started_at DESC LIMIT 200

-- name: codes(vehicle_id)
-- Trouble codes of alerts, active and newest first; ``code`` is null where none was named
SELECT nullif(split_part(rule, '.', 2), '') AS code, split_part(rule, '.', 1) AS rule, severity,
       active, opened_at, last_at, cleared_at, findings
FROM serving.alert
WHERE vehicle_id = %(vehicle_id)s AND starts_with(rule, 'dtc_')
ORDER BY active DESC, last_at DESC, opened_at DESC, code LIMIT 50

-- name: gaps(vehicle_id, start, end)
-- One row: times without a window while the ignition was on before them; null without any window
SELECT count(*) FILTER (WHERE gap_s > 0) AS gaps, sum(gap_s) FILTER (WHERE gap_s > 0) AS gap_s,
       max(gap_s) AS longest_s, count(*) AS windows
FROM (SELECT extract(epoch FROM lead(window_start) OVER w - window_end)::double precision AS gap_s,
             ignition_on
      FROM serving.vehicle_window
      WHERE vehicle_id = %(vehicle_id)s AND window_start < %(end)s
        AND window_start >= greatest(%(start)s, %(end)s - INTERVAL '7 days')
      WINDOW w AS (ORDER BY window_start)) g
WHERE ignition_on IS NOT FALSE

-- name: quality(vehicle_id, start, end)
-- One row: late, quarantined and dead frames of the span with delays and clock, duplicates and missing.
-- Duplicates and missing frames are known by whole hours, as the ledger last found them; null: none
SELECT * FROM (
    SELECT count(*) AS late, count(*) FILTER (WHERE repaired_at IS NULL) AS late_open,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY delay_s) AS delay_p50_s,
           max(delay_s) AS delay_max_s
    FROM serving.vehicle_late_frame
    WHERE vehicle_id = %(vehicle_id)s AND event_time >= %(start)s AND event_time < %(end)s) l,
(SELECT count(*) AS quarantined, count(*) FILTER (WHERE verdict = 'clock_unset') AS clock_unset,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY ahead_s) AS ahead_p50_s
 FROM serving.vehicle_quarantined_frame
 WHERE vehicle_id = %(vehicle_id)s AND received_at >= %(start)s AND received_at < %(end)s) q,
(SELECT coalesce(sum(messages), 0)::bigint AS dead FROM serving.dead_letter
 WHERE vehicle_id = %(vehicle_id)s AND received_at >= %(start)s AND received_at < %(end)s) d,
(SELECT sum(duplicate)::bigint AS duplicate, sum(missing)::bigint AS missing
 FROM serving.audit_vehicle
 WHERE vehicle_id = %(vehicle_id)s AND hour >= date_trunc('hour', %(start)s) AND hour < %(end)s) a

-- name: {measures}
count(*) FILTER (WHERE revision > 0) AS windows_restated,
       sum(frames)::bigint AS frames, sum(frames_late)::bigint AS frames_late,
       sum(samples)::bigint AS samples, sum(out_of_range)::bigint AS out_of_range,
       max(speed_max_kmh) AS speed_max_kmh, sum(distance_m) AS distance_m, sum(moving_s) AS moving_s,
       sum(idle_s) AS idle_s, sum(speeding_s) AS speeding_s,
       avg(coolant_mean_c) AS coolant_mean_c, max(coolant_max_c) AS coolant_max_c,
       max(oil_temp_max_c) AS oil_temp_max_c, min(oil_pressure_min_kpa) AS oil_pressure_min_kpa,
       avg(battery_mean_v) AS battery_mean_v, min(battery_min_v) AS battery_min_v,
       avg(tyre_fl_kpa20) AS tyre_fl_kpa20, avg(tyre_fr_kpa20) AS tyre_fr_kpa20,
       avg(tyre_rl_kpa20) AS tyre_rl_kpa20, avg(tyre_rr_kpa20) AS tyre_rr_kpa20,
       max(dpf_soot_max_pct) AS dpf_soot_max_pct, max(cell_spread_max_mv) AS cell_spread_max_mv,
       max(cell_temp_max_c) AS cell_temp_max_c, max(motor_temp_max_c) AS motor_temp_max_c

-- name: {rolled_up}
SELECT time_bucket(make_interval(secs => %(bucket_s)s), bucket, %(tz)s) AS bucket,
       sum(windows)::bigint AS windows, {measures},
       sum(speed_mean_kmh * speed_n) / nullif(sum(speed_n), 0) AS speed_mean_kmh,
       NULL::double precision AS speed_limit_kmh, NULL::double precision AS soc_pct,
       NULL::double precision AS fuel_level_pct

-- name: {in_steps}
WHERE vehicle_id = %(vehicle_id)s AND bucket >= %(start)s AND bucket < %(end)s
GROUP BY 1 ORDER BY 1 LIMIT 5000

-- name: history_days(vehicle_id, start, end, bucket_s, tz)
{rolled_up}
FROM serving.vehicle_day {in_steps}

-- name: history_hours(vehicle_id, start, end, bucket_s, tz)
{rolled_up}
FROM serving.vehicle_hour {in_steps}

-- name: history_minutes(vehicle_id, start, end, bucket_s, tz)
{rolled_up}
FROM serving.vehicle_minute {in_steps}

-- name: history_windows(vehicle_id, start, end, bucket_s, tz)
SELECT time_bucket(make_interval(secs => %(bucket_s)s), window_start, %(tz)s) AS bucket,
       count(*) AS windows, {measures},
       sum(speed_mean_kmh * CASE WHEN speed_mean_kmh IS NOT NULL THEN samples END)
           / nullif(sum(CASE WHEN speed_mean_kmh IS NOT NULL THEN samples END), 0) AS speed_mean_kmh,
       max(speed_limit_kmh) AS speed_limit_kmh, avg(soc_pct) AS soc_pct,
       avg(fuel_level_pct) AS fuel_level_pct
FROM serving.vehicle_window
WHERE vehicle_id = %(vehicle_id)s AND window_start >= %(start)s AND window_start < %(end)s
GROUP BY 1 ORDER BY 1 LIMIT 5000
