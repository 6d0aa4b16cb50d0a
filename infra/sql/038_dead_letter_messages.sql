-- Lists of dead letters count messages, not rows: a row may stand for many that were not kept, or for none.

CREATE OR REPLACE VIEW serving.dead_letter AS
SELECT partition, log_offset, reason, detail, mqtt_topic, vehicle_id, received_at, bytes, coalesce(messages, 1) AS messages
FROM odograph.dead_letter;
COMMENT ON COLUMN serving.dead_letter.messages IS 'messages that the row stands for; 0: an event of the service';
