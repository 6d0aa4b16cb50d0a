-- Dead letters sent in again, and dead letters whose frame is known: with them the ledger counts each frame once.

ALTER TABLE odograph.dead_letter ADD COLUMN boot_id bigint, ADD COLUMN seq bigint;
COMMENT ON COLUMN odograph.dead_letter.seq IS 'with boot_id the identity of the frame in it, where the letter holds a whole telemetry frame (rate_limited, unstorable); else null';

CREATE TABLE odograph.reinjection (
    partition     integer     NOT NULL,
    log_offset    bigint      NOT NULL,
    digest        text        NOT NULL,
    kafka_topic   text        NOT NULL,
    vehicle_id    text        NOT NULL,
    boot_id       bigint      NOT NULL,
    seq           bigint      NOT NULL,
    asked_at      timestamptz NOT NULL,
    reinjected_at timestamptz,
    PRIMARY KEY (partition, log_offset, digest)
);
COMMENT ON TABLE odograph.reinjection IS 'Dead letters that odograph dead-letters reinject sent in again; a row is written before the record is';
COMMENT ON COLUMN odograph.reinjection.digest IS 'SHA-256 of the raw bytes, hex: offsets begin anew in an emptied Kafka';
COMMENT ON COLUMN odograph.reinjection.kafka_topic IS 'where it went, without the prefix';
COMMENT ON COLUMN odograph.reinjection.reinjected_at IS 'when Kafka had reported it stored; null: it was asked for, and perhaps stored';

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.reinjection TO odograph_ingest;

CREATE VIEW serving.dead_frame AS
SELECT digest, vehicle_id, boot_id, seq FROM odograph.dead_letter WHERE seq IS NOT NULL
UNION
SELECT digest, vehicle_id, boot_id, seq FROM odograph.reinjection WHERE kafka_topic = 'telemetry';
COMMENT ON VIEW serving.dead_frame IS 'Frames that are known to lie in a dead letter; those the archive holds too are no loss: see odograph audit';

CREATE VIEW serving.reinjection AS
SELECT partition, log_offset, digest, kafka_topic, vehicle_id, asked_at, reinjected_at FROM odograph.reinjection;
COMMENT ON VIEW serving.reinjection IS 'Dead letters that were sent in again';

GRANT SELECT ON serving.dead_frame, serving.reinjection TO odograph_dashboard, odograph_ingest;
