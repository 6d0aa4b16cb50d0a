-- The keys that send most are counted in one region's log: readers are shown those of the region that acts.

ALTER TABLE odograph.top_key ADD COLUMN region text NOT NULL DEFAULT odograph.acting_region();
COMMENT ON COLUMN odograph.top_key.region IS 'in whose log they were counted; empty where there is one region only';

CREATE OR REPLACE VIEW serving.top_key AS
SELECT topic, vehicle_id, partition, share, rate_per_s, at
FROM odograph.top_key WHERE region = (SELECT coalesce(max(active), '') FROM odograph.region);
