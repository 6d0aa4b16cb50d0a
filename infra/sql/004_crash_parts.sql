-- Crash records that came in parts: kept until all of a set are there, then the record goes to crash_record.

CREATE TABLE odograph.crash_part (
    vehicle_id  text        NOT NULL,
    boot_id     bigint      NOT NULL,
    crash_id    text        NOT NULL,
    sha256      text        NOT NULL,
    parts       integer     NOT NULL,
    part        integer     NOT NULL,
    event_time  timestamptz NOT NULL,
    received_at timestamptz NOT NULL,
    mqtt_topic  text,
    message     text,
    PRIMARY KEY (vehicle_id, boot_id, crash_id, sha256, parts, part)
);
COMMENT ON TABLE odograph.crash_part IS 'Parts of crash records; a set is what has the same crash_id, sha256 and number of parts';
COMMENT ON COLUMN odograph.crash_part.sha256 IS 'of the whole record''s JSON text, as the part says';
COMMENT ON COLUMN odograph.crash_part.part IS 'from 0';
COMMENT ON COLUMN odograph.crash_part.event_time IS 'time zero on the device clock; the receipt where that cannot be right';
COMMENT ON COLUMN odograph.crash_part.message IS 'the part as received; null once the record was assembled';

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.crash_part TO odograph_ingest;

CREATE VIEW serving.crash_part_set AS
SELECT vehicle_id, boot_id, crash_id, sha256, parts,
       count(*)::integer AS received,
       (SELECT array_agg(n) FROM generate_series(0, p.parts - 1) AS n WHERE n <> ALL (array_agg(p.part))) AS missing,
       bool_and(message IS NULL) AS assembled,
       min(event_time) AS event_time,
       min(received_at) AS first_received_at,
       max(received_at) AS last_received_at
FROM odograph.crash_part p
GROUP BY vehicle_id, boot_id, crash_id, sha256, parts;
COMMENT ON VIEW serving.crash_part_set IS 'Crash records that came in parts: which parts are still missing, and whether the record was assembled';

GRANT SELECT ON serving.crash_part_set TO odograph_dashboard, odograph_ingest;
