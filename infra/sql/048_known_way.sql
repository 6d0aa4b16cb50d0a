-- How much of a trip's way is known: the part on which its frames tell a place that a vehicle can have been at.

ALTER TABLE odograph.trip ADD COLUMN known_m double precision;
COMMENT ON COLUMN odograph.trip.known_m IS 'the part of distance_m on which the place is known, m; null: a trip of an older version';

CREATE OR REPLACE VIEW serving.trip AS
SELECT t.vehicle_id, v.model, v.powertrain, v.vehicle_class, t.trip_id, t.started_at, t.ended_at, t.phase,
       t.start_lat_deg, t.start_lon_deg, t.end_lat_deg, t.end_lon_deg, t.start_h3_r7, t.end_h3_r7,
       t.distance_m, t.unseen_m, t.odometer_m, t.duration_s, t.moving_s, t.standing_s, t.idle_s, t.halts,
       t.speed_mean_kmh, t.speed_moving_kmh, t.speed_max_kmh, t.speeding_s, t.fuel_l, t.fuel_l_per_100km,
       t.energy_kwh, t.energy_kwh_per_100km, t.co2_g, t.harsh_brake, t.harsh_accelerate, t.harsh_corner,
       t.frames, t.revision, t.restated_at, least(1.0, t.known_m / nullif(t.distance_m, 0)) AS known_share
FROM odograph.trip t LEFT JOIN odograph.vehicle v USING (vehicle_id);
COMMENT ON COLUMN serving.trip.known_share IS 'share of distance_m on which the place is known, 0 to 1';
