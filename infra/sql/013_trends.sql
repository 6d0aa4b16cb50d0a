-- Where slow quantities of a vehicle are heading: a robust line through its hours, made by a keeper (stream_jobs/trends/).

CREATE TABLE odograph.trend_metric (
    metric          text PRIMARY KEY,
    source          text NOT NULL,
    unit            text NOT NULL,
    heads           text NOT NULL CHECK (heads IN ('up', 'down')),
    threshold       double precision,
    threshold_share double precision,
    span_days       double precision NOT NULL,
    min_points      integer NOT NULL,
    min_days        double precision NOT NULL,
    CHECK ((threshold IS NULL) <> (threshold_share IS NULL))
);
COMMENT ON TABLE odograph.trend_metric IS 'What is followed: data, to be changed by whoever runs the fleet; the keeper takes it up at its next pass';
COMMENT ON COLUMN odograph.trend_metric.source IS 'column of odograph.vehicle_hour';
COMMENT ON COLUMN odograph.trend_metric.heads IS 'on which side of the threshold is trouble';
COMMENT ON COLUMN odograph.trend_metric.threshold_share IS 'share of the vehicle''s own 90th percentile in the span instead of a threshold: the placard''s tyre pressure is not in the data';
COMMENT ON COLUMN odograph.trend_metric.span_days IS 'how far back, days before the newest hour';
COMMENT ON COLUMN odograph.trend_metric.min_points IS 'hours with a value, at least';
COMMENT ON COLUMN odograph.trend_metric.min_days IS 'days between the first and the last of them, at least';
INSERT INTO odograph.trend_metric VALUES
    ('tyre_fl', 'tyre_fl_kpa20', 'kPa', 'down', NULL, 0.75, 14, 6, 0.25),
    ('tyre_fr', 'tyre_fr_kpa20', 'kPa', 'down', NULL, 0.75, 14, 6, 0.25),
    ('tyre_rl', 'tyre_rl_kpa20', 'kPa', 'down', NULL, 0.75, 14, 6, 0.25),
    ('tyre_rr', 'tyre_rr_kpa20', 'kPa', 'down', NULL, 0.75, 14, 6, 0.25),
    ('brake_pad_fl', 'brake_pad_wear_fl_pct', '%', 'up', 80, NULL, 90, 6, 0.25),
    ('brake_pad_fr', 'brake_pad_wear_fr_pct', '%', 'up', 80, NULL, 90, 6, 0.25),
    ('brake_pad_rl', 'brake_pad_wear_rl_pct', '%', 'up', 80, NULL, 90, 6, 0.25),
    ('brake_pad_rr', 'brake_pad_wear_rr_pct', '%', 'up', 80, NULL, 90, 6, 0.25),
    ('battery_rest', 'battery_rest_v', 'V', 'down', 12.2, NULL, 30, 6, 0.25),
    ('dpf_soot', 'dpf_soot_max_pct', '%', 'up', 80, NULL, 14, 6, 0.25),
    ('cell_spread_rest', 'cell_spread_rest_mv', 'mV', 'up', 60, NULL, 30, 6, 0.25);

CREATE TABLE odograph.vehicle_trend (
    vehicle_id         text NOT NULL,
    metric             text NOT NULL,
    as_of              timestamptz NOT NULL,
    points             integer NOT NULL,
    span_days          double precision NOT NULL,
    value              double precision NOT NULL,
    slope_per_day      double precision NOT NULL,
    slope_low_per_day  double precision NOT NULL,
    slope_high_per_day double precision NOT NULL,
    residual_mad       double precision NOT NULL,
    slope_per_1000_km  double precision,
    threshold          double precision NOT NULL,
    days_to_threshold  double precision,
    PRIMARY KEY (vehicle_id, metric)
);
CREATE TABLE odograph.vehicle_baseline (
    vehicle_id      text PRIMARY KEY,
    as_of           timestamptz NOT NULL,
    computed_at     timestamptz NOT NULL,
    coolant_p99_c   double precision,
    coolant_minutes bigint NOT NULL
);
COMMENT ON TABLE odograph.vehicle_baseline IS 'A vehicle''s own usual values over the 30 days before as_of, and when its trends were computed last';
COMMENT ON COLUMN odograph.vehicle_baseline.coolant_p99_c IS '99th percentile of the means of the minutes with the engine above 500 rpm, degC; null below 60 minutes';
GRANT SELECT ON odograph.trend_metric TO odograph_ingest;
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.vehicle_trend, odograph.vehicle_baseline TO odograph_ingest;

CREATE VIEW serving.vehicle_trend AS
SELECT t.vehicle_id, v.model, t.metric, m.unit, t.as_of, t.value, t.slope_per_day, t.slope_low_per_day, t.slope_high_per_day,
       t.slope_per_1000_km, t.residual_mad, t.points, t.span_days, m.heads, t.threshold, t.days_to_threshold,
       t.as_of + t.days_to_threshold * INTERVAL '1 day' AS threshold_at
FROM odograph.vehicle_trend t JOIN odograph.trend_metric m USING (metric) LEFT JOIN odograph.vehicle v USING (vehicle_id);
COMMENT ON VIEW serving.vehicle_trend IS 'Robust lines (Theil-Sen) through a vehicle''s hours, and when they meet their thresholds';
COMMENT ON COLUMN serving.vehicle_trend.value IS 'of the line at its newest hour';
COMMENT ON COLUMN serving.vehicle_trend.slope_low_per_day IS 'with slope_high_per_day the 90 % interval of the slope';
COMMENT ON COLUMN serving.vehicle_trend.residual_mad IS 'median distance of the hours from the line';
COMMENT ON COLUMN serving.vehicle_trend.days_to_threshold IS '0: beyond it; null: the slope''s interval does not say that it heads there, or it is more than a year away';

CREATE VIEW serving.coolant_precursor AS
SELECT b.vehicle_id, w.until, w.coolant_median_c, b.coolant_p99_c, w.coolant_median_c - b.coolant_p99_c AS above_c,
       w.coolant_median_c > b.coolant_p99_c + 4 AS holds
FROM odograph.vehicle_baseline b
JOIN odograph.vehicle_latest l USING (vehicle_id)
CROSS JOIN LATERAL (
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY coolant_mean_c) AS coolant_median_c, max(window_start) AS until
    FROM odograph.vehicle_window
    WHERE vehicle_id = b.vehicle_id AND window_start > l.event_time - INTERVAL '10 minutes' AND window_start <= l.event_time
) w
WHERE b.coolant_p99_c IS NOT NULL AND w.coolant_median_c IS NOT NULL;
COMMENT ON VIEW serving.coolant_precursor IS 'Coolant''s median of the newest 10 minutes against the vehicle''s own p99 of 30 days; holds: more than 4 degC above it. Filter on vehicle_id';
GRANT SELECT ON serving.vehicle_trend, serving.coolant_precursor TO odograph_dashboard, odograph_ingest;
