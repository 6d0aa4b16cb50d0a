-- Views: the dashboard's only source. Bounded: none scans more than its name says without a filter on time or vehicle.

CREATE SCHEMA IF NOT EXISTS serving;

CREATE VIEW serving.active_alert AS
SELECT vehicle_id,
       count(*)::integer AS alerts,
       max(array_position(ARRAY['WARNING', 'MINOR', 'MAJOR', 'CRITICAL'], severity)) AS rank,
       (ARRAY['WARNING', 'MINOR', 'MAJOR', 'CRITICAL'])[max(array_position(ARRAY['WARNING', 'MINOR', 'MAJOR', 'CRITICAL'], severity))] AS severity
FROM odograph.alert
WHERE cleared_at IS NULL
GROUP BY vehicle_id;
COMMENT ON VIEW serving.active_alert IS 'Vehicles with active alerts: how many and the worst severity';

CREATE VIEW serving.fleet_latest AS
SELECT l.vehicle_id,
       v.model,
       v.powertrain,
       v.vehicle_class,
       l.event_time,
       l.lat_deg,
       l.lon_deg,
       l.heading_deg,
       l.speed_kmh,
       l.speed_limit_kmh,
       l.odometer_m,
       l.coolant_c,
       l.battery_v,
       l.tyre_min_kpa20,
       l.fuel_level_pct,
       l.soc_pct,
       CASE WHEN l.event_time < now() - INTERVAL '2 minutes' THEN 'silent'
            WHEN l.ignition_on IS FALSE THEN 'parked'
            WHEN l.speed_kmh >= 1 THEN 'moving'
            WHEN l.speed_kmh IS NULL THEN 'unknown'
            ELSE 'idling' END AS state,
       coalesce(a.alerts, 0) AS alerts,
       a.severity
FROM odograph.vehicle_latest l
LEFT JOIN odograph.vehicle v USING (vehicle_id)
LEFT JOIN serving.active_alert a USING (vehicle_id);
COMMENT ON VIEW serving.fleet_latest IS 'One row a vehicle: newest state by event time; silent after 2 minutes without data';

CREATE VIEW serving.freshness AS
SELECT (SELECT max(event_time) FROM odograph.vehicle_latest) AS data_as_of,
       w.watermark,
       w.at AS last_batch_at,
       w.lag_records,
       w.dropped_late,
       (SELECT count(*) FROM odograph.late_frame) AS late_frames,
       (SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL) AS late_open,
       (SELECT count(*) FROM odograph.quarantined_frame) AS quarantined_frames,
       (SELECT count(*) FROM odograph.dead_letter) AS dead_letters
FROM (SELECT 1) one
LEFT JOIN LATERAL (
    SELECT at, watermark, lag_records, dropped_late
    FROM odograph.query_progress WHERE query = 'windows' AND at > now() - INTERVAL '1 day'
    ORDER BY at DESC LIMIT 1
) w ON true;
COMMENT ON VIEW serving.freshness IS 'One row: how new the data is, where the watermark stands, what was late, quarantined, dead';

CREATE VIEW serving.fleet_figures AS
SELECT count(*)::integer AS vehicles,
       count(*) FILTER (WHERE state <> 'silent')::integer AS reporting,
       count(*) FILTER (WHERE state = 'moving')::integer AS moving,
       count(*) FILTER (WHERE state = 'idling')::integer AS idling,
       count(*) FILTER (WHERE state = 'parked')::integer AS parked,
       avg(speed_kmh) FILTER (WHERE state = 'moving') AS speed_moving_kmh,
       (SELECT count(*) FROM odograph.alert WHERE cleared_at IS NULL)::integer AS alerts_active,
       (SELECT count(*) FROM odograph.alert WHERE cleared_at IS NULL AND severity = 'CRITICAL')::integer AS alerts_critical,
       (SELECT count(*) FROM odograph.alert WHERE cleared_at IS NULL AND acknowledged_at IS NULL)::integer AS alerts_unacknowledged
FROM serving.fleet_latest;
COMMENT ON VIEW serving.fleet_figures IS 'One row: the fleet now';

CREATE VIEW serving.fleet_minute AS
SELECT time_bucket(INTERVAL '1 minute', window_start) AS minute,
       count(DISTINCT vehicle_id)::integer AS vehicles,
       sum(frames)::bigint AS frames,
       sum(samples)::bigint AS samples,
       sum(distance_m) / 1000 AS distance_km,
       sum(fuel_l) AS fuel_l,
       sum(energy_kwh) AS energy_kwh,
       sum(idle_s) / nullif(sum(idle_s) + sum(moving_s), 0) AS idle_share,
       sum(distance_m) / nullif(sum(moving_s), 0) * 3.6 AS speed_moving_kmh
FROM odograph.vehicle_window
GROUP BY 1;
COMMENT ON VIEW serving.fleet_minute IS 'The fleet by minute of event time; always filter on minute';

CREATE VIEW serving.fleet_hour AS
SELECT time_bucket(INTERVAL '1 minute', window_start) AS minute,
       count(DISTINCT vehicle_id)::integer AS vehicles,
       sum(frames)::bigint AS frames,
       sum(samples)::bigint AS samples,
       sum(distance_m) / 1000 AS distance_km,
       sum(fuel_l) AS fuel_l,
       sum(energy_kwh) AS energy_kwh,
       sum(idle_s) / nullif(sum(idle_s) + sum(moving_s), 0) AS idle_share,
       sum(distance_m) / nullif(sum(moving_s), 0) * 3.6 AS speed_moving_kmh
FROM odograph.vehicle_window
WHERE window_start >= date_trunc('minute', now()) - INTERVAL '1 hour'
GROUP BY 1;
COMMENT ON VIEW serving.fleet_hour IS 'The fleet by minute over the last hour: the filter is on window_start itself, so that older chunks are not read';

CREATE VIEW serving.vehicle_window AS
SELECT vehicle_id, window_start, window_start + window_s * INTERVAL '1 second' AS window_end,
       frames, frames_late, samples, out_of_range, first_event, last_event,
       speed_mean_kmh, speed_max_kmh, speed_last_kmh, speed_limit_kmh, distance_m, moving_s, idle_s, speeding_s,
       accel_long_max_mps2, accel_long_min_mps2, accel_lat_max_mps2, fuel_l, energy_kwh,
       rpm_mean, rpm_max, engine_load_mean_pct, coolant_mean_c, coolant_max_c, oil_pressure_min_kpa, oil_temp_max_c,
       battery_mean_v, battery_min_v, tyre_fl_kpa20, tyre_fr_kpa20, tyre_rl_kpa20, tyre_rr_kpa20,
       brake_pad_wear_max_pct, dpf_soot_max_pct, cell_spread_max_mv, cell_temp_max_c, motor_temp_max_c, dtc_count,
       lat_deg, lon_deg, heading_deg, odometer_m, ignition_on, fuel_level_pct, soc_pct, ambient_temp_c, revision, restated_at
FROM odograph.vehicle_window;
COMMENT ON VIEW serving.vehicle_window IS 'Windows of a vehicle, speed and batch layer as one; always filter on vehicle_id and window_start';

CREATE VIEW serving.vehicle_summary AS
SELECT vehicle_id, min(first_event) AS first_event, max(last_event) AS last_event, sum(frames)::bigint AS frames,
       sum(frames_late)::bigint AS frames_late, sum(samples)::bigint AS samples, sum(distance_m) / 1000 AS distance_km,
       count(*)::bigint AS windows, count(*) FILTER (WHERE revision > 0)::bigint AS windows_restated
FROM odograph.vehicle_window
GROUP BY vehicle_id;
COMMENT ON VIEW serving.vehicle_summary IS 'All windows of a vehicle in one row; always filter on vehicle_id';

CREATE VIEW serving.road_edge AS
SELECT network, edge_id, road_class, speed_limit_kmh, length_m, path FROM odograph.road_edge;
COMMENT ON VIEW serving.road_edge IS 'Road layer of the map; path is [[lon, lat], ...]';

CREATE VIEW serving.road_cell AS
WITH recent AS (
    SELECT cell, heading_sector, max(window_start) AS window_start, max(vehicles) AS vehicles,
           sum(samples)::bigint AS samples, sum(distance_m) AS distance_m, sum(time_s) AS time_s
    FROM odograph.road_cell_window
    WHERE window_start > now() - INTERVAL '5 minutes'
    GROUP BY cell, heading_sector
), judged AS (
    SELECT r.*, r.distance_m / r.time_s * 3.6 AS speed_kmh, b.free_flow_kmh,
           r.distance_m / r.time_s * 3.6 / nullif(b.free_flow_kmh, 0) AS speed_ratio,
           split_part(r.cell, '/', 1)::integer AS zoom, split_part(r.cell, '/', 2)::bigint AS x, split_part(r.cell, '/', 3)::bigint AS y
    FROM recent r LEFT JOIN odograph.road_cell_baseline b USING (cell, heading_sector)
    WHERE r.time_s > 0
)
SELECT cell, heading_sector, window_start, vehicles, vehicles * 60 AS flow_vph, samples, speed_kmh, free_flow_kmh, speed_ratio,
       CASE WHEN speed_ratio IS NULL THEN 'unknown'
            WHEN speed_ratio > 0.9 THEN 'free'
            WHEN speed_ratio > 0.7 THEN 'slow'
            WHEN speed_ratio >= 0.5 THEN 'congested'
            ELSE 'severe' END AS congestion,
       degrees(atan(sinh(pi() * (1 - 2 * (y + 0.5) / (2 ^ zoom))))) AS lat_deg,
       (x + 0.5) / (2 ^ zoom) * 360 - 180 AS lon_deg,
       360.0 / (2 ^ zoom) AS width_deg
FROM judged;
COMMENT ON VIEW serving.road_cell IS 'Traffic of the last 5 minutes by cell and direction; bands of FHWA''s speed ratio; position is the cell''s centre';

CREATE VIEW serving.alert AS
SELECT a.alert_no, a.vehicle_id, v.model, a.rule, a.rule_version, a.severity, a.message, a.opened_at, a.last_at, a.cleared_at,
       a.cleared_at IS NULL AS active, a.acknowledged_at, a.acknowledged_by, a.note, a.value, a.worst_value, a.limit_value, a.findings,
       a.late, a.lat_deg, a.lon_deg, coalesce(a.cleared_at, a.last_at) - a.opened_at AS duration
FROM odograph.alert a LEFT JOIN odograph.vehicle v USING (vehicle_id);
COMMENT ON VIEW serving.alert IS 'Alerts with their vehicle''s model; duration up to the last finding while active';

CREATE VIEW serving.alert_latency AS
SELECT rule, severity, event_time, received_at, alerted_at, stored_at,
       extract(epoch FROM alerted_at - received_at) * 1000 AS received_to_alert_ms,
       extract(epoch FROM alerted_at - event_time) * 1000 AS event_to_alert_ms
FROM odograph.alert_event;
COMMENT ON VIEW serving.alert_latency IS 'Time of each finding from event and receipt to the alerts topic, ms';

CREATE VIEW serving.crash_record AS
SELECT vehicle_id, boot_id, crash_id, event_time, received_at, profile, delta_v_max_kmh, airbag_deployed, complete, hash_ok, lat_deg, lon_deg, record
FROM odograph.crash_record;
COMMENT ON VIEW serving.crash_record IS 'EDR crash records';

CREATE VIEW serving.query_progress AS
SELECT query, at, batch_id, input_rows, rows_per_s, batch_ms, watermark, event_time_max, state_rows, state_bytes, dropped_late,
       dropped_duplicates, lag_records
FROM odograph.query_progress;
COMMENT ON VIEW serving.query_progress IS 'Progress of the streaming queries; always filter on at';

CREATE VIEW serving.dead_letter AS
SELECT partition, log_offset, reason, detail, mqtt_topic, vehicle_id, received_at, bytes FROM odograph.dead_letter;
COMMENT ON VIEW serving.dead_letter IS 'Index of the dead-letter topic';

CREATE VIEW serving.ledger AS
SELECT (SELECT coalesce(sum(frames), 0) FROM odograph.vehicle_window)::bigint AS frames_counted,
       (SELECT coalesce(sum(frames_late), 0) FROM odograph.vehicle_window)::bigint AS frames_repaired,
       (SELECT count(*) FROM odograph.late_frame) AS records_late,
       (SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL) AS records_late_open,
       (SELECT count(*) FROM odograph.quarantined_frame) AS records_quarantined,
       (SELECT count(*) FROM odograph.dead_letter) AS records_dead,
       (SELECT count(DISTINCT digest) FROM odograph.dead_letter) AS records_dead_distinct;
COMMENT ON VIEW serving.ledger IS 'The database''s side of the conservation ledger; see odograph audit';

CREATE VIEW serving.rejected AS
SELECT 'quarantined' AS kind, verdict AS reason, count(*) AS frames, max(received_at) AS last_at
FROM odograph.quarantined_frame GROUP BY verdict
UNION ALL
SELECT 'dead letter', reason, count(*), max(received_at) FROM odograph.dead_letter GROUP BY reason;
COMMENT ON VIEW serving.rejected IS 'What went into no window, a row a reason: quarantined frames and dead letters';

GRANT USAGE ON SCHEMA serving TO odograph_dashboard, odograph_ingest;
GRANT SELECT ON ALL TABLES IN SCHEMA serving TO odograph_dashboard, odograph_ingest;
