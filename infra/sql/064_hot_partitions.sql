-- Hot partitions and keys: a partition in which a reader is far behind, and the vehicles that send most.

CREATE TABLE odograph.top_key (
    topic      text             NOT NULL,
    vehicle_id text             NOT NULL,
    partition  integer          NOT NULL,
    share      double precision NOT NULL,
    rate_per_s double precision,
    at         timestamptz      NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, vehicle_id, partition)
);
COMMENT ON TABLE odograph.top_key IS 'The keys with most records among the newest of each partition, as the watch counted them last';
COMMENT ON COLUMN odograph.top_key.share IS 'of the records that are appended to the topic, 1: all';
COMMENT ON COLUMN odograph.top_key.rate_per_s IS 'records, per s; null: the topic''s rate was not known';
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.top_key TO odograph_ingest;

CREATE VIEW serving.top_key AS SELECT topic, vehicle_id, partition, share, rate_per_s, at FROM odograph.top_key;
COMMENT ON VIEW serving.top_key IS 'The keys with most records among the newest of each partition; at: when they were counted';

CREATE VIEW serving.partition_skew AS
SELECT reader, topic, count(*)::integer AS partitions, max(lag) AS most,
       (array_agg(partition ORDER BY lag DESC, partition))[1] AS most_partition,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY lag) AS median,
       max(lag)::double precision / greatest(percentile_disc(0.5) WITHIN GROUP (ORDER BY lag), 1) AS ratio
FROM serving.partition_lag WHERE measured GROUP BY reader, topic;
COMMENT ON VIEW serving.partition_skew IS 'How unevenly a reader is behind: records of the partition with most, over the median of the topic''s partitions';

GRANT SELECT ON serving.top_key, serving.partition_skew TO odograph_dashboard, odograph_ingest;
