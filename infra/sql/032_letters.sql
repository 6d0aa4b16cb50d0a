-- Dead letters without a message: how many were rejected and not kept, and sessions that the broker lost.

ALTER TABLE odograph.dead_letter ADD COLUMN messages integer CHECK (messages >= 0), ADD COLUMN since_at timestamptz;
COMMENT ON COLUMN odograph.dead_letter.messages IS 'null: the letter holds one message; else it holds none: so many were rejected for its reason and not kept, 0 of an event of the service';
COMMENT ON COLUMN odograph.dead_letter.since_at IS 'of a lost session (reason session_lost): when it was last known to be at the broker';
CREATE INDEX dead_letter_session_lost ON odograph.dead_letter (received_at) WHERE reason = 'session_lost';

ALTER TABLE odograph.audit_hour ADD COLUMN not_kept bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN odograph.audit_hour.not_kept IS 'messages beyond a vehicle''s limit that were counted and not kept';

CREATE OR REPLACE VIEW serving.ledger AS
SELECT (SELECT coalesce(sum(frames), 0) FROM odograph.vehicle_window)::bigint AS frames_counted,
       (SELECT coalesce(sum(frames_late), 0) FROM odograph.vehicle_window)::bigint AS frames_repaired,
       (SELECT count(*) FROM odograph.late_frame) AS records_late,
       (SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL) AS records_late_open,
       (SELECT count(*) FROM odograph.quarantined_frame) AS records_quarantined,
       (SELECT count(*) FROM odograph.dead_letter WHERE messages IS NULL) AS records_dead,
       (SELECT count(DISTINCT digest) FROM odograph.dead_letter WHERE messages IS NULL) AS records_dead_distinct,
       (SELECT coalesce(sum(messages), 0) FROM odograph.dead_letter)::bigint AS messages_not_kept;

CREATE OR REPLACE VIEW serving.rejected AS
SELECT 'quarantined' AS kind, verdict AS reason, count(*) AS frames, max(received_at) AS last_at
FROM odograph.quarantined_frame GROUP BY verdict
UNION ALL
SELECT 'dead letter', reason, sum(coalesce(messages, 1)), max(received_at) FROM odograph.dead_letter
WHERE reason <> 'session_lost' GROUP BY reason;

CREATE VIEW serving.session_loss AS
SELECT since_at, received_at AS at, detail FROM odograph.dead_letter WHERE reason = 'session_lost' AND since_at IS NOT NULL;
COMMENT ON VIEW serving.session_loss IS 'When the broker no longer had a session of the bridge: whatever it held between since_at and at may be lost; filter on at';
GRANT SELECT ON serving.session_loss TO odograph_dashboard, odograph_ingest;
