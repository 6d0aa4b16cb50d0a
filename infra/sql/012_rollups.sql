-- Windows rolled up to minutes, hours and days by a keeper of the stream application (stream_jobs/rollups/): the Apache edition
-- of TimescaleDB has no continuous aggregates. Every sum is of whole steps, so a level equals what its windows give, bit by bit.

CREATE TABLE odograph.window_change (
    change_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    minute    timestamptz NOT NULL,
    vehicles  text[]      NOT NULL
);
COMMENT ON TABLE odograph.window_change IS 'Queue: minutes and vehicles whose windows were written since the last roll-up, a line a minute and transaction';

CREATE TABLE odograph.rollup_zone (tz text NOT NULL);
COMMENT ON TABLE odograph.rollup_zone IS 'The time zone in which hours and days are cut (setting ODOGRAPH_TZ)';

CREATE TABLE odograph.vehicle_minute (
    vehicle_id            text NOT NULL,
    bucket                timestamptz NOT NULL,
    windows               bigint NOT NULL,
    frames                bigint NOT NULL,
    frames_late           bigint NOT NULL,
    samples               bigint NOT NULL,
    out_of_range          bigint NOT NULL,
    first_event           timestamptz NOT NULL,
    last_event            timestamptz NOT NULL,
    distance_m            double precision,
    moving_s              double precision,
    idle_s                double precision,
    speeding_s            double precision,
    speeding_10_s         double precision,
    speeding_20_s         double precision,
    speeding_30_s         double precision,
    fuel_l                double precision,
    idle_fuel_l           double precision,
    energy_kwh            double precision,
    speed_mean_kmh        double precision,
    speed_n               bigint NOT NULL,
    speed_max_kmh         double precision,
    accel_long_max_mps2   double precision,
    accel_long_min_mps2   double precision,
    accel_lat_max_mps2    double precision,
    rpm_mean              double precision,
    rpm_n                 bigint NOT NULL,
    rpm_max               double precision,
    engine_load_mean_pct  double precision,
    engine_load_n         bigint NOT NULL,
    coolant_mean_c        double precision,
    coolant_n             bigint NOT NULL,
    coolant_max_c         double precision,
    oil_pressure_min_kpa  double precision,
    oil_shortfall_max_kpa double precision,
    oil_below_floor_s     double precision,
    oil_temp_max_c        double precision,
    fuel_trim_mean_pct    double precision,
    fuel_trim_n           bigint NOT NULL,
    dpf_soot_max_pct      double precision,
    dpf_delta_p_max_pa    double precision,
    tyre_fl_kpa20         double precision,
    tyre_fl_n             bigint NOT NULL,
    tyre_fr_kpa20         double precision,
    tyre_fr_n             bigint NOT NULL,
    tyre_rl_kpa20         double precision,
    tyre_rl_n             bigint NOT NULL,
    tyre_rr_kpa20         double precision,
    tyre_rr_n             bigint NOT NULL,
    tyre_temp_max_c       double precision,
    brake_pad_wear_fl_pct double precision,
    brake_pad_wear_fr_pct double precision,
    brake_pad_wear_rl_pct double precision,
    brake_pad_wear_rr_pct double precision,
    battery_mean_v        double precision,
    battery_n             bigint NOT NULL,
    battery_min_v         double precision,
    battery_rest_v        double precision,
    battery_rest_n        bigint NOT NULL,
    battery_running_v     double precision,
    battery_running_n     bigint NOT NULL,
    battery_on_min_v      double precision,
    cell_spread_max_mv    double precision,
    cell_spread_rest_mv   double precision,
    cell_temp_min_c       double precision,
    cell_temp_max_c       double precision,
    cell_temp_rate_c_min  double precision,
    pack_voltage_min_v    double precision,
    motor_temp_max_c      double precision,
    dtc_count             integer,
    odometer_m            bigint,
    ambient_mean_c        double precision,
    ambient_n             bigint NOT NULL,
    PRIMARY KEY (vehicle_id, bucket)
);
CREATE TABLE odograph.vehicle_hour (LIKE odograph.vehicle_minute INCLUDING ALL);
CREATE TABLE odograph.vehicle_day (LIKE odograph.vehicle_minute INCLUDING ALL);
COMMENT ON TABLE odograph.vehicle_minute IS 'Windows of a vehicle that begin in a minute; columns as in vehicle_window, means over all samples of the minute';
COMMENT ON TABLE odograph.vehicle_hour IS 'The same by hour of ODOGRAPH_TZ';
COMMENT ON TABLE odograph.vehicle_day IS 'The same by calendar day of ODOGRAPH_TZ';
SELECT create_hypertable('odograph.vehicle_minute', 'bucket', chunk_time_interval => INTERVAL '7 days');
SELECT create_hypertable('odograph.vehicle_hour', 'bucket', chunk_time_interval => INTERVAL '90 days');
SELECT create_hypertable('odograph.vehicle_day', 'bucket', chunk_time_interval => INTERVAL '1000 days');
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.window_change, odograph.rollup_zone,
    odograph.vehicle_minute, odograph.vehicle_hour, odograph.vehicle_day TO odograph_ingest;

-- Windows of before this file.
INSERT INTO odograph.window_change (minute, vehicles)
SELECT date_trunc('minute', window_start), array_agg(DISTINCT vehicle_id) FROM odograph.vehicle_window GROUP BY 1 ORDER BY 1;

CREATE TABLE odograph.fuel_factor (
    powertrain    text PRIMARY KEY,
    co2_g_per_l   double precision NOT NULL
);
COMMENT ON TABLE odograph.fuel_factor IS 'CO2 of a litre of fuel by powertrain; to be changed by whoever runs the fleet';
COMMENT ON COLUMN odograph.fuel_factor.co2_g_per_l IS 'g/l; EPA: petrol 2348, diesel 2689; hybrids burn petrol';
INSERT INTO odograph.fuel_factor VALUES ('petrol', 2348), ('hybrid', 2348), ('diesel', 2689);
GRANT SELECT ON odograph.fuel_factor TO odograph_ingest;

CREATE VIEW serving.vehicle_minute AS
SELECT r.*, v.model, v.powertrain, v.vehicle_class,
       CASE WHEN r.distance_m >= 1000 THEN r.fuel_l / r.distance_m * 100000 END AS l_per_100km,
       CASE WHEN r.distance_m >= 1000 THEN r.energy_kwh / r.distance_m * 100000 END AS kwh_per_100km,
       r.fuel_l * f.co2_g_per_l / 1000 AS co2_kg,
       CASE WHEN r.distance_m >= 1000 THEN r.fuel_l * f.co2_g_per_l / r.distance_m * 1000 END AS co2_g_per_km,
       r.idle_s / nullif(r.idle_s + r.moving_s, 0) AS idle_share
FROM odograph.vehicle_minute r
LEFT JOIN odograph.vehicle v USING (vehicle_id)
LEFT JOIN odograph.fuel_factor f ON f.powertrain = v.powertrain;
COMMENT ON VIEW serving.vehicle_minute IS 'Roll-up of a vehicle by minute; per distance from 1 km on, CO2 by powertrain; always filter on bucket';
CREATE VIEW serving.vehicle_hour AS
SELECT r.*, v.model, v.powertrain, v.vehicle_class,
       CASE WHEN r.distance_m >= 1000 THEN r.fuel_l / r.distance_m * 100000 END AS l_per_100km,
       CASE WHEN r.distance_m >= 1000 THEN r.energy_kwh / r.distance_m * 100000 END AS kwh_per_100km,
       r.fuel_l * f.co2_g_per_l / 1000 AS co2_kg,
       CASE WHEN r.distance_m >= 1000 THEN r.fuel_l * f.co2_g_per_l / r.distance_m * 1000 END AS co2_g_per_km,
       r.idle_s / nullif(r.idle_s + r.moving_s, 0) AS idle_share
FROM odograph.vehicle_hour r
LEFT JOIN odograph.vehicle v USING (vehicle_id)
LEFT JOIN odograph.fuel_factor f ON f.powertrain = v.powertrain;
COMMENT ON VIEW serving.vehicle_hour IS 'Roll-up of a vehicle by hour; per distance from 1 km on, CO2 by powertrain; always filter on bucket';
CREATE VIEW serving.vehicle_day AS
SELECT r.*, v.model, v.powertrain, v.vehicle_class,
       CASE WHEN r.distance_m >= 1000 THEN r.fuel_l / r.distance_m * 100000 END AS l_per_100km,
       CASE WHEN r.distance_m >= 1000 THEN r.energy_kwh / r.distance_m * 100000 END AS kwh_per_100km,
       r.fuel_l * f.co2_g_per_l / 1000 AS co2_kg,
       CASE WHEN r.distance_m >= 1000 THEN r.fuel_l * f.co2_g_per_l / r.distance_m * 1000 END AS co2_g_per_km,
       r.idle_s / nullif(r.idle_s + r.moving_s, 0) AS idle_share
FROM odograph.vehicle_day r
LEFT JOIN odograph.vehicle v USING (vehicle_id)
LEFT JOIN odograph.fuel_factor f ON f.powertrain = v.powertrain;
COMMENT ON VIEW serving.vehicle_day IS 'Roll-up of a vehicle by day of ODOGRAPH_TZ; per distance from 1 km on, CO2 by powertrain; always filter on bucket';
GRANT SELECT ON serving.vehicle_minute, serving.vehicle_hour, serving.vehicle_day TO odograph_dashboard, odograph_ingest;
