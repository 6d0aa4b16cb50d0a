-- What query vehicles makes of each vehicle's frames in their order: trips, stops, idling, harsh events.
-- Natural keys (vehicle, begin); revision 0 is the stream's, the batch layer's rows have 1 and more and stay.

CREATE TABLE odograph.trip (
    vehicle_id        text        NOT NULL,
    started_at        timestamptz NOT NULL,
    ended_at          timestamptz NOT NULL,
    trip_id           text        NOT NULL,
    phase             text        NOT NULL,
    start_lat_deg     double precision,
    start_lon_deg     double precision,
    end_lat_deg       double precision,
    end_lon_deg       double precision,
    start_h3_r7       text,
    end_h3_r7         text,
    distance_m        double precision NOT NULL,
    unseen_m          double precision NOT NULL,
    odometer_m        double precision,
    duration_s        double precision NOT NULL,
    moving_s          double precision NOT NULL,
    standing_s        double precision NOT NULL,
    idle_s            double precision NOT NULL,
    halts             integer     NOT NULL,
    speed_mean_kmh    double precision,
    speed_moving_kmh  double precision,
    speed_max_kmh     double precision,
    speeding_s        double precision,
    fuel_l            double precision,
    fuel_l_per_100km  double precision,
    energy_kwh        double precision,
    energy_kwh_per_100km double precision,
    co2_g             double precision,
    harsh_brake       integer     NOT NULL,
    harsh_accelerate  integer     NOT NULL,
    harsh_corner      integer     NOT NULL,
    frames            integer     NOT NULL,
    batch_id          bigint      NOT NULL,
    revision          integer     NOT NULL DEFAULT 0,
    restated_at       timestamptz,
    PRIMARY KEY (vehicle_id, started_at)
);
CREATE INDEX ON odograph.trip (started_at);
COMMENT ON TABLE odograph.trip IS 'Trips by displacement, begin and end dated back to where moving began and ended';
COMMENT ON COLUMN odograph.trip.phase IS 'open: under way; provisional: over because nothing more came; final: over by what came';
COMMENT ON COLUMN odograph.trip.trip_id IS 'follows from vehicle and begin: a trip that buffered data extends keeps it';
COMMENT ON COLUMN odograph.trip.distance_m IS 'integral of the speed, m; over times without frames the odometer or the displacement';
COMMENT ON COLUMN odograph.trip.unseen_m IS 'the part of distance_m that no frame saw, m';
COMMENT ON COLUMN odograph.trip.odometer_m IS 'odometer from the first to the last frame, m: a check of distance_m';
COMMENT ON COLUMN odograph.trip.standing_s IS 'duration_s without moving_s, s';
COMMENT ON COLUMN odograph.trip.idle_s IS 'standing with the ignition on, s';
COMMENT ON COLUMN odograph.trip.halts IS 'standstills on the way that lasted long enough (ODOGRAPH_JOURNEYS_HALT_S)';
COMMENT ON COLUMN odograph.trip.fuel_l_per_100km IS 'null below 1 km';
COMMENT ON COLUMN odograph.trip.co2_g IS 'out of the exhaust, g: EPA factors of petrol and diesel; 0 for electric vehicles';
COMMENT ON COLUMN odograph.trip.start_h3_r7 IS 'hexagon of 5.2 km2 where it began';

CREATE TABLE odograph.trip_stop (
    vehicle_id text        NOT NULL,
    began_at   timestamptz NOT NULL,
    ended_at   timestamptz,
    lat_deg    double precision,
    lon_deg    double precision,
    h3_r7      text,
    batch_id   bigint      NOT NULL,
    revision   integer     NOT NULL DEFAULT 0,
    restated_at timestamptz,
    PRIMARY KEY (vehicle_id, began_at)
);
COMMENT ON TABLE odograph.trip_stop IS 'The time between two trips of a vehicle; ended_at is null while it lasts';

CREATE TABLE odograph.idle_episode (
    vehicle_id text        NOT NULL,
    began_at   timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    phase      text        NOT NULL,
    duration_s double precision NOT NULL,
    fuel_l     double precision,
    energy_kwh double precision,
    lat_deg    double precision,
    lon_deg    double precision,
    batch_id   bigint      NOT NULL,
    revision   integer     NOT NULL DEFAULT 0,
    restated_at timestamptz,
    PRIMARY KEY (vehicle_id, began_at)
);
CREATE INDEX ON odograph.idle_episode (began_at);
COMMENT ON TABLE odograph.idle_episode IS 'Standing below 1 km/h with the ignition on, from 120 s on; litres and kWh burnt meanwhile';
COMMENT ON COLUMN odograph.idle_episode.phase IS 'open: it lasts; provisional: nothing more came; final: it ended';

CREATE TABLE odograph.harsh_event (
    vehicle_id text        NOT NULL,
    began_at   timestamptz NOT NULL,
    kind       text        NOT NULL,
    ended_at   timestamptz NOT NULL,
    grade      smallint    NOT NULL,
    peak_g     double precision NOT NULL,
    limit_g    double precision NOT NULL,
    speed_kmh  double precision NOT NULL,
    lat_deg    double precision,
    lon_deg    double precision,
    batch_id   bigint      NOT NULL,
    revision   integer     NOT NULL DEFAULT 0,
    restated_at timestamptz,
    PRIMARY KEY (vehicle_id, began_at, kind)
);
CREATE INDEX ON odograph.harsh_event (began_at);
COMMENT ON TABLE odograph.harsh_event IS 'Harsh driving by class thresholds and speed gates, at least 300 ms, merged within 3 s';
COMMENT ON COLUMN odograph.harsh_event.kind IS 'brake, accelerate, corner';
COMMENT ON COLUMN odograph.harsh_event.grade IS '1 to 3 by peak_g over limit_g (ODOGRAPH_JOURNEYS_HARSH_GRADES)';
COMMENT ON COLUMN odograph.harsh_event.speed_kmh IS 'speed at its begin, km/h';

CREATE TABLE odograph.journey_behind (
    vehicle_id  text        NOT NULL,
    from_time   timestamptz NOT NULL,
    to_time     timestamptz NOT NULL,
    received_at timestamptz NOT NULL,
    frames      integer     NOT NULL,
    noted_at    timestamptz NOT NULL DEFAULT now(),
    repaired_at timestamptz,
    PRIMARY KEY (vehicle_id, from_time, received_at)
);
CREATE INDEX ON odograph.journey_behind (noted_at) WHERE repaired_at IS NULL;
COMMENT ON TABLE odograph.journey_behind IS 'Frames that came after their gap had been given up: journeys that the batch layer restates';

CREATE VIEW serving.trip AS
SELECT t.vehicle_id, v.model, v.powertrain, v.vehicle_class, t.trip_id, t.started_at, t.ended_at, t.phase,
       t.start_lat_deg, t.start_lon_deg, t.end_lat_deg, t.end_lon_deg, t.start_h3_r7, t.end_h3_r7,
       t.distance_m, t.unseen_m, t.odometer_m, t.duration_s, t.moving_s, t.standing_s, t.idle_s, t.halts,
       t.speed_mean_kmh, t.speed_moving_kmh, t.speed_max_kmh, t.speeding_s, t.fuel_l, t.fuel_l_per_100km,
       t.energy_kwh, t.energy_kwh_per_100km, t.co2_g, t.harsh_brake, t.harsh_accelerate, t.harsh_corner,
       t.frames, t.revision, t.restated_at
FROM odograph.trip t LEFT JOIN odograph.vehicle v USING (vehicle_id);
COMMENT ON VIEW serving.trip IS 'Trips with what the vehicle is; always filter on started_at or vehicle_id';

CREATE VIEW serving.trip_stop AS
SELECT vehicle_id, began_at, ended_at, ended_at - began_at AS dwell, lat_deg, lon_deg, h3_r7 FROM odograph.trip_stop;
COMMENT ON VIEW serving.trip_stop IS 'Stops between trips; dwell is null while a stop lasts; always filter on began_at or vehicle_id';

CREATE VIEW serving.idle_episode AS
SELECT vehicle_id, began_at, ended_at, phase, duration_s, fuel_l, energy_kwh, lat_deg, lon_deg FROM odograph.idle_episode;
COMMENT ON VIEW serving.idle_episode IS 'Idling episodes; always filter on began_at or vehicle_id';

CREATE VIEW serving.harsh_event AS
SELECT vehicle_id, began_at, ended_at, kind, grade, peak_g, limit_g, speed_kmh, lat_deg, lon_deg,
       extract(epoch FROM ended_at - began_at) * 1000 AS duration_ms
FROM odograph.harsh_event;
COMMENT ON VIEW serving.harsh_event IS 'Harsh events; always filter on began_at or vehicle_id';

GRANT SELECT, INSERT, UPDATE, DELETE
ON odograph.trip, odograph.trip_stop, odograph.idle_episode, odograph.harsh_event, odograph.journey_behind
TO odograph_ingest;
GRANT SELECT ON serving.trip, serving.trip_stop, serving.idle_episode, serving.harsh_event
TO odograph_dashboard, odograph_ingest;
