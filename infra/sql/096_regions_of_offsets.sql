-- Offsets are places in one region's log: each line says of which, and readers are shown those of the region that acts.

CREATE FUNCTION odograph.acting_region() RETURNS text LANGUAGE sql STABLE AS
    $$SELECT coalesce((SELECT active FROM odograph.region), '')$$;
COMMENT ON FUNCTION odograph.acting_region IS 'The region that acts, empty where there is one only: that of whoever holds a lease';

ALTER TABLE odograph.consumer_offset ADD COLUMN region text NOT NULL DEFAULT odograph.acting_region();
ALTER TABLE odograph.partition_lag ADD COLUMN region text NOT NULL DEFAULT odograph.acting_region();
ALTER TABLE odograph.batch_ledger ADD COLUMN region text NOT NULL DEFAULT odograph.acting_region();
COMMENT ON COLUMN odograph.consumer_offset.region IS 'whose log next_offset is of; empty where there is one region only';
COMMENT ON COLUMN odograph.partition_lag.region IS 'whose log the offsets are of; empty where there is one region only';
COMMENT ON COLUMN odograph.batch_ledger.region IS 'whose log the batch is of; empty where there is one region only';

CREATE OR REPLACE VIEW serving.partition_lag AS
SELECT reader, topic, partition, log_end, read_to, log_end - read_to AS lag, rate_per_s, at, now() <= good_until AS measured
FROM odograph.partition_lag WHERE region = (SELECT coalesce(max(active), '') FROM odograph.region);
COMMENT ON VIEW serving.partition_lag IS 'Records of each partition of the acting region''s log that are in no result of a reader yet';
