-- Tables of the service. Times are timestamptz (UTC inside); every measured column has its unit in its name and in its comment.
-- Written by the roles' jobs only; people and the dashboard read the views in schema serving (002).

CREATE SCHEMA IF NOT EXISTS odograph;
CREATE EXTENSION IF NOT EXISTS timescaledb;

-- Identity ---------------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.vehicle (
    vehicle_id    text PRIMARY KEY,
    model         text,
    powertrain    text,
    vehicle_class text,
    state         text NOT NULL,
    state_at      timestamptz NOT NULL,
    boot_id       bigint NOT NULL
);
COMMENT ON TABLE odograph.vehicle IS 'The last status message of each vehicle: birth, death, model';
COMMENT ON COLUMN odograph.vehicle.state_at IS 'device time of the message';

-- Windows ----------------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.vehicle_window (
    vehicle_id           text        NOT NULL,
    window_start         timestamptz NOT NULL,
    window_s             integer     NOT NULL,
    frames               integer     NOT NULL,
    frames_late          integer     NOT NULL,
    samples              integer     NOT NULL,
    out_of_range         integer     NOT NULL,
    first_event          timestamptz NOT NULL,
    last_event           timestamptz NOT NULL,
    -- driving
    speed_mean_kmh       double precision,
    speed_max_kmh        double precision,
    distance_m           double precision,
    moving_s             double precision,
    idle_s               double precision,
    speeding_s           double precision,
    accel_long_max_mps2  double precision,
    accel_long_min_mps2  double precision,
    accel_lat_max_mps2   double precision,
    fuel_l               double precision,
    energy_kwh           double precision,
    -- mechanical health
    rpm_mean             double precision,
    rpm_max              double precision,
    engine_load_mean_pct double precision,
    coolant_mean_c       double precision,
    coolant_max_c        double precision,
    oil_pressure_min_kpa double precision,
    oil_temp_max_c       double precision,
    battery_mean_v       double precision,
    battery_min_v        double precision,
    tyre_fl_kpa20        double precision,
    tyre_fr_kpa20        double precision,
    tyre_rl_kpa20        double precision,
    tyre_rr_kpa20        double precision,
    brake_pad_wear_max_pct double precision,
    dpf_soot_max_pct     double precision,
    cell_spread_max_mv   double precision,
    cell_temp_max_c      double precision,
    motor_temp_max_c     double precision,
    dtc_count            integer,
    -- the last sample in the window
    lat_deg              double precision,
    lon_deg              double precision,
    heading_deg          double precision,
    speed_last_kmh       double precision,
    speed_limit_kmh      double precision,
    odometer_m           bigint,
    ignition_on          boolean,
    fuel_level_pct       double precision,
    soc_pct              double precision,
    ambient_temp_c       double precision,
    -- which run of which layer wrote it last
    batch_id             bigint      NOT NULL,
    revision             integer     NOT NULL DEFAULT 0,
    restated_at          timestamptz,
    PRIMARY KEY (vehicle_id, window_start)
);
COMMENT ON TABLE odograph.vehicle_window IS 'Driving and mechanical aggregates by vehicle and event-time window; revision 0 is the speed layer, more is the batch layer';
COMMENT ON COLUMN odograph.vehicle_window.window_s IS 'length of the window, s';
COMMENT ON COLUMN odograph.vehicle_window.frames IS 'frames whose first sample lies in the window; a frame is counted once in all';
COMMENT ON COLUMN odograph.vehicle_window.frames_late IS 'those of frames that came too late for the stream and were added by the batch layer';
COMMENT ON COLUMN odograph.vehicle_window.samples IS 'samples in the window';
COMMENT ON COLUMN odograph.vehicle_window.out_of_range IS 'values outside their signal''s plausible range, taken for not available';
COMMENT ON COLUMN odograph.vehicle_window.distance_m IS 'integral of speed, m';
COMMENT ON COLUMN odograph.vehicle_window.moving_s IS 'time at 1 km/h or more, s';
COMMENT ON COLUMN odograph.vehicle_window.idle_s IS 'time below 1 km/h with ignition on, s';
COMMENT ON COLUMN odograph.vehicle_window.speeding_s IS 'time more than 5 km/h above the known limit, s';
COMMENT ON COLUMN odograph.vehicle_window.accel_long_min_mps2 IS 'hardest braking, m/s^2, negative';
COMMENT ON COLUMN odograph.vehicle_window.accel_lat_max_mps2 IS 'largest lateral acceleration by magnitude, m/s^2';
COMMENT ON COLUMN odograph.vehicle_window.fuel_l IS 'integral of fuel rate, l';
COMMENT ON COLUMN odograph.vehicle_window.energy_kwh IS 'integral of traction battery power, kWh, discharge positive';
COMMENT ON COLUMN odograph.vehicle_window.oil_pressure_min_kpa IS 'lowest oil pressure with the engine above 500 rpm, kPa';
COMMENT ON COLUMN odograph.vehicle_window.tyre_fl_kpa20 IS 'mean tyre pressure compensated to 20 degC, kPa gauge';
COMMENT ON COLUMN odograph.vehicle_window.cell_spread_max_mv IS 'largest difference between cells, mV';
COMMENT ON COLUMN odograph.vehicle_window.dtc_count IS 'most trouble codes active at once';
COMMENT ON COLUMN odograph.vehicle_window.revision IS '0: from the stream; n: restated n times from the archive';
SELECT create_hypertable('odograph.vehicle_window', 'window_start', chunk_time_interval => INTERVAL '1 day');

CREATE TABLE odograph.road_cell_window (
    cell           text        NOT NULL,
    heading_sector smallint    NOT NULL,
    window_start   timestamptz NOT NULL,
    window_s       integer     NOT NULL,
    vehicles       integer     NOT NULL,
    samples        integer     NOT NULL,
    distance_m     double precision NOT NULL,
    time_s         double precision NOT NULL,
    speed_kmh      double precision NOT NULL,
    batch_id       bigint      NOT NULL,
    revision       integer     NOT NULL DEFAULT 0,
    restated_at    timestamptz,
    PRIMARY KEY (cell, heading_sector, window_start)
);
COMMENT ON TABLE odograph.road_cell_window IS 'Traffic by road cell (Web Mercator tile, zoom/x/y), direction and event-time window';
COMMENT ON COLUMN odograph.road_cell_window.heading_sector IS '0 north, 1 east, 2 south, 3 west: 90 degrees each, centred';
COMMENT ON COLUMN odograph.road_cell_window.vehicles IS 'distinct vehicles seen with ignition on';
COMMENT ON COLUMN odograph.road_cell_window.distance_m IS 'distance travelled in the cell by all, m';
COMMENT ON COLUMN odograph.road_cell_window.time_s IS 'time spent in the cell by all, s';
COMMENT ON COLUMN odograph.road_cell_window.speed_kmh IS 'space-mean speed by Edie''s definition: distance over time, km/h';
SELECT create_hypertable('odograph.road_cell_window', 'window_start', chunk_time_interval => INTERVAL '1 day');

CREATE TABLE odograph.road_cell_baseline (
    cell           text             NOT NULL,
    heading_sector smallint         NOT NULL,
    free_flow_kmh  double precision NOT NULL,
    windows        integer          NOT NULL,
    updated_at     timestamptz      NOT NULL,
    PRIMARY KEY (cell, heading_sector)
);
COMMENT ON TABLE odograph.road_cell_baseline IS 'Free-flow speed of each cell and direction: 85th percentile of its windows';

CREATE TABLE odograph.vehicle_latest (
    vehicle_id      text PRIMARY KEY,
    event_time      timestamptz NOT NULL,
    lat_deg         double precision,
    lon_deg         double precision,
    heading_deg     double precision,
    speed_kmh       double precision,
    speed_limit_kmh double precision,
    odometer_m      bigint,
    ignition_on     boolean,
    coolant_c       double precision,
    battery_v       double precision,
    tyre_min_kpa20  double precision,
    fuel_level_pct  double precision,
    soc_pct         double precision,
    updated_at      timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE odograph.vehicle_latest IS 'The newest state of each vehicle by event time, never by arrival';

-- What did not go into a window on the fast path ------------------------------------------------------------------------------

CREATE TABLE odograph.late_frame (
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    log_offset  bigint      NOT NULL,
    vehicle_id  text        NOT NULL,
    boot_id     bigint      NOT NULL,
    seq         bigint      NOT NULL,
    t0_ms       bigint      NOT NULL,
    span_ms     bigint      NOT NULL,
    received_at timestamptz NOT NULL,
    repaired_at timestamptz,
    PRIMARY KEY (topic, partition, log_offset)
);
COMMENT ON TABLE odograph.late_frame IS 'Frames received later than the lateness limit; kept in the archive, repaired by the batch layer';
COMMENT ON COLUMN odograph.late_frame.t0_ms IS 'device time of the first sample, ms since 1970';
COMMENT ON COLUMN odograph.late_frame.span_ms IS 'time from the first to the last sample, ms';
CREATE INDEX late_frame_open ON odograph.late_frame (received_at) WHERE repaired_at IS NULL;

CREATE TABLE odograph.quarantined_frame (
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    log_offset  bigint      NOT NULL,
    vehicle_id  text        NOT NULL,
    boot_id     bigint      NOT NULL,
    seq         bigint      NOT NULL,
    t0_ms       bigint      NOT NULL,
    received_at timestamptz NOT NULL,
    verdict     text        NOT NULL,
    PRIMARY KEY (topic, partition, log_offset)
);
COMMENT ON TABLE odograph.quarantined_frame IS 'Frames with an impossible clock, kept from the watermark: clock_unset, clock_ahead, or unreadable';

CREATE TABLE odograph.dead_letter (
    partition   integer     NOT NULL,
    log_offset  bigint      NOT NULL,
    reason      text        NOT NULL,
    detail      text,
    mqtt_topic  text,
    vehicle_id  text,
    received_at timestamptz NOT NULL,
    bytes       integer     NOT NULL,
    digest      text        NOT NULL,
    PRIMARY KEY (partition, log_offset)
);
COMMENT ON TABLE odograph.dead_letter IS 'Index of the dead-letter topic; the raw bytes stay there';
COMMENT ON COLUMN odograph.dead_letter.digest IS 'SHA-256 of the raw bytes, hex: the same message dead-lettered twice counts once in the ledger';

-- Events -----------------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.alert (
    alert_no        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    vehicle_id      text        NOT NULL,
    rule            text        NOT NULL,
    rule_version    integer     NOT NULL,
    severity        text        NOT NULL CHECK (severity IN ('WARNING', 'MINOR', 'MAJOR', 'CRITICAL')),
    message         text        NOT NULL,
    opened_at       timestamptz NOT NULL,
    last_at         timestamptz NOT NULL,
    cleared_at      timestamptz,
    acknowledged_at timestamptz,
    acknowledged_by text,
    note            text,
    value           double precision,
    worst_value     double precision,
    limit_value     double precision,
    findings        integer     NOT NULL,
    late            boolean     NOT NULL,
    lat_deg         double precision,
    lon_deg         double precision,
    first_alert_id  text        NOT NULL UNIQUE
);
COMMENT ON TABLE odograph.alert IS 'Alerts: one active per vehicle and rule; active/cleared and acknowledged are two axes';
COMMENT ON COLUMN odograph.alert.findings IS 'findings merged into this alert';
COMMENT ON COLUMN odograph.alert.late IS 'found more than 15 minutes after the event: stored, not notified';
CREATE UNIQUE INDEX alert_one_active ON odograph.alert (vehicle_id, rule) WHERE cleared_at IS NULL;
CREATE INDEX alert_by_time ON odograph.alert (opened_at DESC);
CREATE INDEX alert_by_identity ON odograph.alert (vehicle_id, rule, last_at DESC);

CREATE TABLE odograph.alert_event (
    alert_id    text PRIMARY KEY,
    vehicle_id  text        NOT NULL,
    rule        text        NOT NULL,
    severity    text        NOT NULL,
    event_time  timestamptz NOT NULL,
    received_at timestamptz NOT NULL,
    alerted_at  timestamptz NOT NULL,
    stored_at   timestamptz NOT NULL DEFAULT now(),
    value       double precision
);
COMMENT ON TABLE odograph.alert_event IS 'Every finding once, by its deterministic id: at-least-once delivery ends here';
COMMENT ON COLUMN odograph.alert_event.received_at IS 'when the bridge received the frame or record';
COMMENT ON COLUMN odograph.alert_event.alerted_at IS 'when the finding was appended to the alerts topic';

CREATE TABLE odograph.crash_record (
    vehicle_id      text        NOT NULL,
    boot_id         bigint      NOT NULL,
    crash_id        text        NOT NULL,
    event_time      timestamptz NOT NULL,
    received_at     timestamptz NOT NULL,
    profile         text        NOT NULL,
    delta_v_max_kmh double precision,
    airbag_deployed boolean,
    complete        boolean     NOT NULL,
    hash_ok         boolean     NOT NULL,
    lat_deg         double precision,
    lon_deg         double precision,
    record          jsonb       NOT NULL,
    PRIMARY KEY (vehicle_id, boot_id, crash_id)
);
COMMENT ON TABLE odograph.crash_record IS 'EDR crash records as received; hash_ok says whether the SHA-256 inside matches';

-- Book-keeping -----------------------------------------------------------------------------------------------------------

CREATE TABLE odograph.batch_ledger (
    query_id     uuid        NOT NULL,
    batch_id     bigint      NOT NULL,
    query        text        NOT NULL,
    rows         bigint      NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (query_id, batch_id)
);
COMMENT ON TABLE odograph.batch_ledger IS 'Micro-batches whose results are in: a batch run again after a crash changes nothing';

CREATE TABLE odograph.consumer_offset (
    consumer    text    NOT NULL,
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint  NOT NULL,
    PRIMARY KEY (consumer, topic, partition)
);
COMMENT ON TABLE odograph.consumer_offset IS 'Offsets of the plain consumers, committed with what they stored';

CREATE TABLE odograph.query_progress (
    query          text        NOT NULL,
    at             timestamptz NOT NULL,
    query_id       uuid        NOT NULL,
    batch_id       bigint      NOT NULL,
    input_rows     bigint      NOT NULL,
    rows_per_s     double precision,
    batch_ms       integer,
    watermark      timestamptz,
    event_time_max timestamptz,
    state_rows     bigint,
    state_bytes    bigint,
    dropped_late   bigint,
    dropped_duplicates bigint,
    lag_records    bigint,
    PRIMARY KEY (query, at)
);
COMMENT ON TABLE odograph.query_progress IS 'Progress of each streaming query, a row a batch';
COMMENT ON COLUMN odograph.query_progress.lag_records IS 'records in Kafka not yet processed';
COMMENT ON COLUMN odograph.query_progress.dropped_late IS 'rows Spark dropped behind the watermark: must stay 0, the verdict is taken before';
SELECT create_hypertable('odograph.query_progress', 'at', chunk_time_interval => INTERVAL '1 day');

CREATE TABLE odograph.road_edge (
    network         text    NOT NULL,
    edge_id         integer NOT NULL,
    road_class      text    NOT NULL,
    speed_limit_kmh double precision NOT NULL,
    length_m        double precision NOT NULL,
    path            jsonb   NOT NULL,
    PRIMARY KEY (network, edge_id)
);
COMMENT ON TABLE odograph.road_edge IS 'Road layer of the map; path is [[lon, lat], ...] in degrees';

GRANT USAGE ON SCHEMA odograph TO odograph_ingest;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA odograph TO odograph_ingest;
