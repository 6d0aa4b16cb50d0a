-- An offset is a place in one log: in another cluster, and in a topic made anew, offsets begin at 0 again. What is kept by its
-- place has therefore the log's identity in its key, the topic's id by Kafka; '' says that it was noted before this file.

ALTER TABLE odograph.late_frame ADD COLUMN log_generation text NOT NULL DEFAULT '', DROP CONSTRAINT late_frame_pkey,
    ADD PRIMARY KEY (topic, partition, log_offset, log_generation);
ALTER TABLE odograph.quarantined_frame ADD COLUMN log_generation text NOT NULL DEFAULT '', DROP CONSTRAINT quarantined_frame_pkey,
    ADD PRIMARY KEY (topic, partition, log_offset, log_generation);
ALTER TABLE odograph.dead_letter ADD COLUMN log_generation text NOT NULL DEFAULT '', DROP CONSTRAINT dead_letter_pkey,
    ADD PRIMARY KEY (partition, log_offset, log_generation);
ALTER TABLE odograph.alert_evidence ADD COLUMN log_generation text NOT NULL DEFAULT '';
ALTER TABLE odograph.consumer_offset ADD COLUMN log_generation text NOT NULL DEFAULT '';
ALTER TABLE odograph.batch_ledger ADD COLUMN log_generation text NOT NULL DEFAULT '';
COMMENT ON COLUMN odograph.late_frame.log_generation IS 'the log that the offset is of: the topic''s id by Kafka; empty: noted before ids were';
COMMENT ON COLUMN odograph.quarantined_frame.log_generation IS 'the log that the offset is of: the topic''s id by Kafka; empty: noted before ids were';
COMMENT ON COLUMN odograph.dead_letter.log_generation IS 'the log that the offset is of: the topic''s id by Kafka; empty: noted before ids were';
COMMENT ON COLUMN odograph.alert_evidence.log_generation IS 'the log that the offset is of: the topic''s id by Kafka; empty: noted before ids were';
COMMENT ON COLUMN odograph.consumer_offset.log_generation IS 'the log that next_offset is of; of another one the consumer reads from the beginning';
COMMENT ON COLUMN odograph.batch_ledger.log_generation IS 'the log that the batch is of; a checkpoint does not go on with another one';
