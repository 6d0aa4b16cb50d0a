-- Overload: frames put off are listed with the late ones until they are in their windows; when it was, and how much.

ALTER TABLE odograph.late_frame ADD COLUMN deferred boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN odograph.late_frame.deferred IS 'in time, and put off because of overload: in windows once repaired, as if nothing had been';
CREATE INDEX late_frame_deferred ON odograph.late_frame (received_at) WHERE deferred;

ALTER TABLE odograph.audit_hour ADD COLUMN deferred bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN odograph.audit_hour.deferred IS 'frames put off because of overload that are in no window yet';
CREATE OR REPLACE VIEW serving.audit_hour AS SELECT * FROM odograph.audit_hour WHERE vehicles > 0 OR residual > 0;

CREATE TABLE odograph.overload (
    began_at    timestamptz PRIMARY KEY,
    ended_at    timestamptz,
    classes     text        NOT NULL,
    lag_records bigint      NOT NULL
);
COMMENT ON TABLE odograph.overload IS 'When telemetry of some classes of vehicles went to the archive only';
COMMENT ON COLUMN odograph.overload.classes IS 'of the vehicles concerned, a comma between them';
COMMENT ON COLUMN odograph.overload.lag_records IS 'records that waited for the query telemetry when it began';
CREATE UNIQUE INDEX overload_open ON odograph.overload ((true)) WHERE ended_at IS NULL;

CREATE VIEW serving.overload AS
SELECT o.began_at, o.ended_at, o.classes, o.lag_records, n.deferred, n.waiting
FROM odograph.overload o
CROSS JOIN LATERAL (
    SELECT count(*) AS deferred, count(*) FILTER (WHERE repaired_at IS NULL) AS waiting FROM odograph.late_frame
    WHERE deferred AND received_at >= o.began_at
      AND received_at < coalesce((SELECT min(later.began_at) FROM odograph.overload later WHERE later.began_at > o.began_at), 'infinity')
) n;
COMMENT ON VIEW serving.overload IS 'Times of overload: frames put off (bridges may do so some seconds beyond the end), and those not in windows yet';

CREATE OR REPLACE VIEW serving.ledger AS
SELECT (SELECT coalesce(sum(frames), 0) FROM odograph.vehicle_window)::bigint AS frames_counted,
       (SELECT coalesce(sum(frames_late), 0) FROM odograph.vehicle_window)::bigint AS frames_repaired,
       (SELECT count(*) FROM odograph.late_frame WHERE NOT deferred) AS records_late,
       (SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL AND NOT deferred) AS records_late_open,
       (SELECT count(*) FROM odograph.quarantined_frame) AS records_quarantined,
       (SELECT count(*) FROM odograph.dead_letter WHERE messages IS NULL) AS records_dead,
       (SELECT count(DISTINCT digest) FROM odograph.dead_letter WHERE messages IS NULL) AS records_dead_distinct,
       (SELECT coalesce(sum(messages), 0) FROM odograph.dead_letter)::bigint AS messages_not_kept,
       (SELECT count(DISTINCT (vehicle_id, boot_id, seq)) FROM odograph.late_frame WHERE deferred) AS records_deferred,
       (SELECT count(DISTINCT (vehicle_id, boot_id, seq)) FROM odograph.late_frame WHERE deferred AND repaired_at IS NULL)
           AS records_deferred_open;

-- What was put off came in time: it is no late frame in what is told of clocks and links.

CREATE OR REPLACE VIEW serving.vehicle_late_frame AS
SELECT vehicle_id, boot_id, seq, to_timestamp(t0_ms / 1000.0) AS event_time, received_at,
       extract(epoch FROM received_at)::double precision - (t0_ms + span_ms) / 1000.0::double precision AS delay_s, repaired_at
FROM odograph.late_frame WHERE NOT deferred;

CREATE OR REPLACE VIEW serving.off_time AS
SELECT 'late' AS kind, vehicle_id, received_at, extract(epoch FROM received_at)::double precision - t0_ms / 1000.0::double precision AS behind_s,
       repaired_at IS NOT NULL AS repaired
FROM odograph.late_frame WHERE NOT deferred
UNION ALL
SELECT verdict, vehicle_id, received_at, extract(epoch FROM received_at)::double precision - t0_ms / 1000.0::double precision, NULL
FROM odograph.quarantined_frame;

CREATE OR REPLACE VIEW serving.freshness AS
SELECT (SELECT max(event_time) FROM odograph.vehicle_latest) AS data_as_of,
       w.watermark,
       w.at AS last_batch_at,
       w.lag_records,
       w.dropped_late,
       (SELECT count(*) FROM odograph.late_frame WHERE received_at > now() - INTERVAL '1 day' AND NOT deferred) AS late_frames,
       (SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL AND NOT deferred) AS late_open,
       (SELECT count(*) FROM odograph.quarantined_frame WHERE received_at > now() - INTERVAL '1 day') AS quarantined_frames,
       (SELECT count(*) FROM odograph.dead_letter WHERE received_at > now() - INTERVAL '1 day') AS dead_letters
FROM (SELECT 1) one
LEFT JOIN LATERAL (
    SELECT at, watermark, lag_records, dropped_late
    FROM odograph.query_progress WHERE query = 'telemetry' AND at > now() - INTERVAL '1 day'
    ORDER BY at DESC LIMIT 1
) w ON true;

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.overload TO odograph_ingest;
GRANT SELECT ON serving.overload TO odograph_dashboard, odograph_ingest;
