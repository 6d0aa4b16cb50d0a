-- Of dead letters the newest figures count messages, as the lists do: a row may stand for many that were not kept, or for none.

DROP INDEX odograph.dead_letter_by_receipt;
CREATE INDEX dead_letter_by_receipt ON odograph.dead_letter (received_at) INCLUDE (messages);

CREATE OR REPLACE VIEW serving.freshness AS
SELECT (SELECT max(event_time) FROM odograph.vehicle_latest) AS data_as_of,
       w.watermark,
       w.at AS last_batch_at,
       w.lag_records,
       w.dropped_late,
       (SELECT count(*) FROM odograph.late_frame WHERE received_at > now() - INTERVAL '1 day' AND NOT deferred) AS late_frames,
       (SELECT count(*) FROM odograph.late_frame WHERE repaired_at IS NULL AND NOT deferred) AS late_open,
       (SELECT count(*) FROM odograph.quarantined_frame WHERE received_at > now() - INTERVAL '1 day') AS quarantined_frames,
       (SELECT coalesce(sum(coalesce(messages, 1)), 0)::bigint FROM odograph.dead_letter
        WHERE received_at > now() - INTERVAL '1 day') AS dead_letters
FROM (SELECT 1) one
LEFT JOIN LATERAL (
    SELECT at, watermark, lag_records, dropped_late
    FROM odograph.query_progress WHERE query = 'telemetry' AND at > now() - INTERVAL '1 day'
    ORDER BY at DESC LIMIT 1
) w ON true;
COMMENT ON COLUMN serving.freshness.dead_letters IS 'messages of dead letters of the last day';
