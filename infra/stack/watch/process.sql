-- Statements of process.py.

-- name: sample
INSERT INTO odograph.stage_sample
    (stage, at, good_until, ready, reason, rate_per_s, errors, lag, saturation, cores, memory_mb, restarts)
VALUES (%(stage)s, now(), now() + make_interval(secs => %(good_s)s), %(ready)s, %(reason)s, %(rate_per_s)s,
        %(errors)s, %(lag)s, %(saturation)s, %(cores)s, %(memory_mb)s, %(restarts)s)
ON CONFLICT DO NOTHING

-- name: place
INSERT INTO odograph.partition_lag
    (reader, topic, partition, log_end, read_to, rate_per_s, region, at, good_until)
VALUES (%s, %s, %s, %s, %s, %s, %s, now(), now() + make_interval(secs => %s))
ON CONFLICT (reader, topic, partition) DO UPDATE SET log_end = excluded.log_end, read_to = excluded.read_to,
    rate_per_s = excluded.rate_per_s, region = excluded.region, at = excluded.at, good_until = excluded.good_until

-- name: storage
INSERT INTO odograph.storage_sample (place, at, bytes, free_bytes) VALUES (%s, now(), %s, %s)
ON CONFLICT DO NOTHING

-- name: key
INSERT INTO odograph.top_key (topic, vehicle_id, partition, share, rate_per_s, region) VALUES (%s, %s, %s, %s, %s, %s)

-- name: read_to
SELECT topic, partition, next_offset FROM odograph.consumer_offset
WHERE consumer = 'events' AND region = odograph.acting_region()

-- name: own
SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
       (SELECT xact_rollback + deadlocks FROM pg_stat_database WHERE datname = current_database()),
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       current_setting('max_connections')::integer,
       odograph.acting_region()
