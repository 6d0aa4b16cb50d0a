-- More of driving and mechanical health in a vehicle window; figures and their sources: stream_jobs/README.md.

ALTER TABLE odograph.vehicle_window
    ADD COLUMN speeding_10_s         double precision,
    ADD COLUMN speeding_20_s         double precision,
    ADD COLUMN speeding_30_s         double precision,
    ADD COLUMN idle_fuel_l           double precision,
    ADD COLUMN oil_shortfall_max_kpa double precision,
    ADD COLUMN oil_below_floor_s     double precision,
    ADD COLUMN fuel_trim_mean_pct    double precision,
    ADD COLUMN dpf_delta_p_max_pa    double precision,
    ADD COLUMN gear_min              integer,
    ADD COLUMN gear_max              integer,
    ADD COLUMN rpm_per_kmh           double precision,
    ADD COLUMN tyre_temp_max_c       double precision,
    ADD COLUMN brake_pad_wear_fl_pct double precision,
    ADD COLUMN brake_pad_wear_fr_pct double precision,
    ADD COLUMN brake_pad_wear_rl_pct double precision,
    ADD COLUMN brake_pad_wear_rr_pct double precision,
    ADD COLUMN battery_rest_v        double precision,
    ADD COLUMN battery_running_v     double precision,
    ADD COLUMN battery_on_min_v      double precision,
    ADD COLUMN cell_spread_rest_mv   double precision,
    ADD COLUMN cell_temp_min_c       double precision,
    ADD COLUMN cell_temp_rate_c_min  double precision,
    ADD COLUMN pack_voltage_min_v    double precision,
    -- how many samples the means are over: a mean over several windows is weighted by them
    ADD COLUMN speed_n               integer NOT NULL DEFAULT 0,
    ADD COLUMN rpm_n                 integer NOT NULL DEFAULT 0,
    ADD COLUMN engine_load_n         integer NOT NULL DEFAULT 0,
    ADD COLUMN coolant_n             integer NOT NULL DEFAULT 0,
    ADD COLUMN fuel_trim_n           integer NOT NULL DEFAULT 0,
    ADD COLUMN tyre_fl_n             integer NOT NULL DEFAULT 0,
    ADD COLUMN tyre_fr_n             integer NOT NULL DEFAULT 0,
    ADD COLUMN tyre_rl_n             integer NOT NULL DEFAULT 0,
    ADD COLUMN tyre_rr_n             integer NOT NULL DEFAULT 0,
    ADD COLUMN battery_n             integer NOT NULL DEFAULT 0,
    ADD COLUMN battery_rest_n        integer NOT NULL DEFAULT 0,
    ADD COLUMN battery_running_n     integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN odograph.vehicle_window.speeding_s IS 'time more than 5 km/h above the known limit, s; the bands +10, +20, +30 are part of it';
COMMENT ON COLUMN odograph.vehicle_window.speeding_10_s IS 'time more than 10 km/h above the known limit, s';
COMMENT ON COLUMN odograph.vehicle_window.speeding_20_s IS 'time more than 20 km/h above the known limit, s';
COMMENT ON COLUMN odograph.vehicle_window.speeding_30_s IS 'time more than 30 km/h above the known limit, s';
COMMENT ON COLUMN odograph.vehicle_window.idle_fuel_l IS 'integral of fuel rate while idling, l';
COMMENT ON COLUMN odograph.vehicle_window.oil_shortfall_max_kpa IS 'furthest that the oil pressure was below its floor at the frame''s lowest engine speed (69 kPa at 700 rpm to 207 at 2500), engine above 500 rpm all through the frame, kPa; negative: it kept above';
COMMENT ON COLUMN odograph.vehicle_window.oil_below_floor_s IS 'time below that floor, s';
COMMENT ON COLUMN odograph.vehicle_window.fuel_trim_mean_pct IS 'mean of short-term plus long-term fuel trim, engine running and coolant at 70 degC or more, %';
COMMENT ON COLUMN odograph.vehicle_window.dpf_delta_p_max_pa IS 'largest pressure drop over the particulate filter, Pa';
COMMENT ON COLUMN odograph.vehicle_window.gear_min IS 'lowest forward gear; equal to gear_max: one gear all the time';
COMMENT ON COLUMN odograph.vehicle_window.rpm_per_kmh IS 'engine speed over speed in forward gears at 10 km/h or more, rpm per km/h; tells slip where gear_min = gear_max';
COMMENT ON COLUMN odograph.vehicle_window.tyre_temp_max_c IS 'hottest tyre''s air, degC';
COMMENT ON COLUMN odograph.vehicle_window.brake_pad_wear_fl_pct IS 'largest pad wear told for the wheel, %';
COMMENT ON COLUMN odograph.vehicle_window.battery_rest_v IS 'mean of the 12 V system with ignition off, V';
COMMENT ON COLUMN odograph.vehicle_window.battery_running_v IS 'mean of the 12 V system with ignition on and the engine, where there is one, above 500 rpm all through the frame, V';
COMMENT ON COLUMN odograph.vehicle_window.battery_on_min_v IS 'lowest of the 12 V system with ignition on, V: a start shows here';
COMMENT ON COLUMN odograph.vehicle_window.cell_spread_rest_mv IS 'largest difference between cells with less than 5 A through the pack, mV';
COMMENT ON COLUMN odograph.vehicle_window.cell_temp_min_c IS 'coldest cell, degC';
COMMENT ON COLUMN odograph.vehicle_window.cell_temp_rate_c_min IS 'hottest cell''s last temperature less its first over the time between, degC per minute; null without two frames';
COMMENT ON COLUMN odograph.vehicle_window.pack_voltage_min_v IS 'lowest pack voltage, V';
COMMENT ON COLUMN odograph.vehicle_window.speed_n IS 'samples that speed_mean_kmh is over; so the other columns that end in _n for theirs';

CREATE OR REPLACE VIEW serving.vehicle_window AS
SELECT vehicle_id, window_start, window_start + window_s * INTERVAL '1 second' AS window_end,
       frames, frames_late, samples, out_of_range, first_event, last_event,
       speed_mean_kmh, speed_max_kmh, speed_last_kmh, speed_limit_kmh, distance_m, moving_s, idle_s, speeding_s,
       accel_long_max_mps2, accel_long_min_mps2, accel_lat_max_mps2, fuel_l, energy_kwh,
       rpm_mean, rpm_max, engine_load_mean_pct, coolant_mean_c, coolant_max_c, oil_pressure_min_kpa, oil_temp_max_c,
       battery_mean_v, battery_min_v, tyre_fl_kpa20, tyre_fr_kpa20, tyre_rl_kpa20, tyre_rr_kpa20,
       brake_pad_wear_max_pct, dpf_soot_max_pct, cell_spread_max_mv, cell_temp_max_c, motor_temp_max_c, dtc_count,
       lat_deg, lon_deg, heading_deg, odometer_m, ignition_on, fuel_level_pct, soc_pct, ambient_temp_c, revision, restated_at,
       speeding_10_s, speeding_20_s, speeding_30_s, idle_fuel_l, oil_shortfall_max_kpa, oil_below_floor_s, fuel_trim_mean_pct,
       dpf_delta_p_max_pa, gear_min, gear_max, rpm_per_kmh, tyre_temp_max_c,
       tyre_fl_kpa20 - tyre_fr_kpa20 AS tyre_front_difference_kpa,
       tyre_rl_kpa20 - tyre_rr_kpa20 AS tyre_rear_difference_kpa,
       brake_pad_wear_fl_pct, brake_pad_wear_fr_pct, brake_pad_wear_rl_pct, brake_pad_wear_rr_pct,
       brake_pad_wear_fl_pct - brake_pad_wear_fr_pct AS brake_pad_front_difference_pct,
       brake_pad_wear_rl_pct - brake_pad_wear_rr_pct AS brake_pad_rear_difference_pct,
       battery_rest_v, battery_running_v, battery_on_min_v,
       cell_spread_rest_mv, cell_temp_min_c, cell_temp_rate_c_min, pack_voltage_min_v
FROM odograph.vehicle_window;
COMMENT ON COLUMN serving.vehicle_window.tyre_front_difference_kpa IS 'left less right front tyre at 20 degC, kPa: a tyre against its axle mate';
COMMENT ON COLUMN serving.vehicle_window.brake_pad_front_difference_pct IS 'left less right front pad wear, points';
