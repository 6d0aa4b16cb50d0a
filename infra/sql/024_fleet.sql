-- The fleet by minute as a table, so that a page need not read every vehicle's windows; how good a vehicle's data is.

CREATE TABLE odograph.fleet_minute (
    minute            timestamptz PRIMARY KEY,
    vehicles          integer NOT NULL,
    moving            integer NOT NULL,
    on_road           integer NOT NULL,
    frames            bigint  NOT NULL,
    samples           bigint  NOT NULL,
    distance_m        double precision,
    moving_s          double precision,
    idle_s            double precision,
    fuel_l            double precision,
    fuel_distance_m   double precision,
    energy_kwh        double precision,
    energy_distance_m double precision
);
COMMENT ON TABLE odograph.fleet_minute IS 'The minutes of all vehicles (vehicle_minute) in one row a minute, made by the keeper of the roll-ups in the same transaction';
COMMENT ON COLUMN odograph.fleet_minute.vehicles IS 'vehicles with a window that begins in the minute';
COMMENT ON COLUMN odograph.fleet_minute.moving IS 'those of them that moved, at 1 km/h or more for any time of it';
COMMENT ON COLUMN odograph.fleet_minute.on_road IS 'those of them that moved or stood with the ignition on';
COMMENT ON COLUMN odograph.fleet_minute.fuel_distance_m IS 'the part of distance_m that vehicles drove whose fuel is known, m';
COMMENT ON COLUMN odograph.fleet_minute.energy_distance_m IS 'the part of distance_m that vehicles drove whose traction energy is known, m';
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.fleet_minute TO odograph_ingest;

-- Minutes of before this file: as the keeper makes them (stream_jobs/rollups/fleet.py).
INSERT INTO odograph.fleet_minute
SELECT bucket, count(*), count(*) FILTER (WHERE moving_s > 0), count(*) FILTER (WHERE moving_s > 0 OR idle_s > 0), sum(frames), sum(samples),
       sum(round(distance_m * 360000)::bigint)::double precision / 360000,
       sum(round(moving_s * 1000)::bigint)::double precision / 1000,
       sum(round(idle_s * 1000)::bigint)::double precision / 1000,
       sum(round(fuel_l * 360000000)::bigint)::double precision / 360000000,
       sum(round(distance_m * 360000)::bigint) FILTER (WHERE fuel_l IS NOT NULL)::double precision / 360000,
       sum(round(energy_kwh * 360000000000)::bigint)::double precision / 360000000000,
       sum(round(distance_m * 360000)::bigint) FILTER (WHERE energy_kwh IS NOT NULL)::double precision / 360000
FROM odograph.vehicle_minute GROUP BY bucket;

CREATE VIEW serving.fleet_trend AS
SELECT minute, vehicles, moving, on_road, frames, frames / 60.0::double precision AS frames_per_s, samples, distance_m / 1000 AS distance_km,
       idle_s / nullif(idle_s + moving_s, 0) AS idle_share,
       distance_m / nullif(moving_s, 0) * 3.6 AS speed_moving_kmh,
       fuel_l, CASE WHEN fuel_distance_m >= 1000 THEN fuel_l / fuel_distance_m * 100000 END AS l_per_100km,
       energy_kwh, CASE WHEN energy_distance_m >= 1000 THEN energy_kwh / energy_distance_m * 100000 END AS kwh_per_100km
FROM odograph.fleet_minute;
COMMENT ON VIEW serving.fleet_trend IS 'The fleet by minute of event time out of the roll-ups: a row a minute however large the fleet; always filter on minute';
COMMENT ON COLUMN serving.fleet_trend.idle_share IS 'standing with the ignition on over standing so and moving, 0 to 1';
COMMENT ON COLUMN serving.fleet_trend.l_per_100km IS 'of vehicles whose fuel is known, from 1 km on';

CREATE VIEW serving.fleet_today AS
WITH cut AS (
    SELECT z.tz, date_trunc('day', now() AT TIME ZONE z.tz) AS day, now() AT TIME ZONE z.tz AS clock
    FROM (SELECT coalesce((SELECT tz FROM odograph.rollup_zone LIMIT 1), 'UTC') AS tz) z
), span AS (
    SELECT tz, day AT TIME ZONE tz AS since, (day - INTERVAL '1 day') AT TIME ZONE tz AS before,
           (clock - INTERVAL '1 day') AT TIME ZONE tz AS same_time
    FROM cut
)
SELECT s.tz, s.since, t.*, y.distance_km AS before_distance_km
FROM span s
CROSS JOIN LATERAL (
    SELECT sum(distance_m) / 1000 AS distance_km, sum(idle_s) / nullif(sum(idle_s) + sum(moving_s), 0) AS idle_share,
           sum(fuel_l) AS fuel_l, sum(energy_kwh) AS energy_kwh,
           CASE WHEN sum(fuel_distance_m) >= 1000 THEN sum(fuel_l) / sum(fuel_distance_m) * 100000 END AS l_per_100km,
           CASE WHEN sum(energy_distance_m) >= 1000 THEN sum(energy_kwh) / sum(energy_distance_m) * 100000 END AS kwh_per_100km
    FROM odograph.fleet_minute WHERE minute >= s.since
) t
CROSS JOIN LATERAL (
    SELECT sum(distance_m) / 1000 AS distance_km FROM odograph.fleet_minute WHERE minute >= s.before AND minute < s.same_time
) y;
COMMENT ON VIEW serving.fleet_today IS 'One row: the fleet since midnight of ODOGRAPH_TZ, as the roll-ups cut days; null: nothing yet';
COMMENT ON COLUMN serving.fleet_today.since IS 'begin of the day';
COMMENT ON COLUMN serving.fleet_today.before_distance_km IS 'the day before up to the same time of day, km';

-- How good a vehicle's data is ------------------------------------------------------------------------------------------------

CREATE INDEX late_frame_by_vehicle ON odograph.late_frame (vehicle_id, t0_ms);
CREATE INDEX quarantined_frame_by_vehicle ON odograph.quarantined_frame (vehicle_id, received_at);
CREATE INDEX dead_letter_by_vehicle ON odograph.dead_letter (vehicle_id, received_at);

CREATE VIEW serving.vehicle_late_frame AS
SELECT vehicle_id, boot_id, seq, to_timestamp(t0_ms / 1000.0) AS event_time, received_at,
       extract(epoch FROM received_at)::double precision - (t0_ms + span_ms) / 1000.0::double precision AS delay_s, repaired_at
FROM odograph.late_frame;
COMMENT ON VIEW serving.vehicle_late_frame IS 'Late frames; always filter on vehicle_id and event_time';
COMMENT ON COLUMN serving.vehicle_late_frame.delay_s IS 'from its last sample to its receipt, s';

CREATE VIEW serving.vehicle_quarantined_frame AS
SELECT vehicle_id, boot_id, seq, verdict, received_at,
       CASE WHEN verdict = 'clock_ahead' AND abs(t0_ms) < 1e14 THEN t0_ms / 1000.0::double precision - extract(epoch FROM received_at)::double precision END AS ahead_s
FROM odograph.quarantined_frame;
COMMENT ON VIEW serving.vehicle_quarantined_frame IS 'Frames with an impossible clock; always filter on vehicle_id and received_at';
COMMENT ON COLUMN serving.vehicle_quarantined_frame.ahead_s IS 'how far the device''s clock is ahead of the receipt, s; null: it was never set';

CREATE TABLE odograph.audit_vehicle (
    hour        timestamptz NOT NULL REFERENCES odograph.audit_hour ON DELETE CASCADE,
    vehicle_id  text        NOT NULL,
    generated   bigint NOT NULL,
    counted     bigint NOT NULL,
    late        bigint NOT NULL,
    quarantined bigint NOT NULL,
    duplicate   bigint NOT NULL,
    dead        bigint NOT NULL,
    missing     bigint NOT NULL,
    lost        bigint NOT NULL,
    PRIMARY KEY (hour, vehicle_id)
);
CREATE INDEX audit_vehicle_by_vehicle ON odograph.audit_vehicle (vehicle_id, hour);
COMMENT ON TABLE odograph.audit_vehicle IS 'The conservation ledger of each hour by vehicle, where anything but in time and once came; columns as in audit_hour';
COMMENT ON COLUMN odograph.audit_vehicle.lost IS 'on the link and dropped on board: what the vehicle itself knows of';
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.audit_vehicle TO odograph_ingest;
CREATE VIEW serving.audit_vehicle AS SELECT * FROM odograph.audit_vehicle;
COMMENT ON VIEW serving.audit_vehicle IS 'Late, quarantined, duplicate, dead, missing and lost frames of a vehicle by hour of first samples (UTC); always filter on vehicle_id and hour';

GRANT SELECT ON serving.fleet_trend, serving.fleet_today, serving.vehicle_late_frame,
    serving.vehicle_quarantined_frame, serving.audit_vehicle TO odograph_dashboard, odograph_ingest;
