-- Statements of sinks.py.

-- name: forget_shares
-- Shares of another checkpoint: this one reads everything anew.
WITH others AS (DELETE FROM odograph.road_share_bucket WHERE query_id <> %(query_id)s RETURNING bucket)
DELETE FROM odograph.road_share WHERE EXISTS (SELECT 1 FROM others)

-- name: note_buckets
INSERT INTO odograph.road_share_bucket AS b (query_id, bucket, open_from_ms)
SELECT %(query_id)s, bucket, open_from_ms FROM unnest(%(bucket)s::int[], %(open_from_ms)s::bigint[])
    AS n (bucket, open_from_ms)
ON CONFLICT (query_id, bucket) DO UPDATE SET open_from_ms = excluded.open_from_ms
WHERE b.open_from_ms <> excluded.open_from_ms

-- name: close_shares
-- Not at once: a bucket that has no vehicle yet takes nothing that is older than the margin.
DELETE FROM odograph.road_share
WHERE start_ms < (SELECT min(open_from_ms) FROM odograph.road_share_bucket) - %(margin_ms)s

-- name: sum_shares
-- By the key, place by place: the planner knows nothing of staged rows and would read the whole table.
SELECT t.*, s.*
FROM (SELECT DISTINCT start_ms, place, heading_sector FROM staged_road_share) t, LATERAL (
    SELECT sum(samples)::bigint, sum(time_ms_sum)::bigint, sum(speed_over_time_sum)::bigint,
           sum(vehicles)::bigint, bit_or(vehicle_bits)
    FROM odograph.road_share s
    WHERE (s.start_ms, s.place, s.heading_sector) = (t.start_ms, t.place, t.heading_sector)
) s

-- name: mark
-- The five minutes that staged windows lie in, for roads/history.py; a mark that is there is locked all the same.
INSERT INTO odograph.road_interval_due (interval_start)
SELECT DISTINCT date_bin(INTERVAL '5 minutes', window_start, TIMESTAMPTZ '2000-01-01 00:00:00+00') FROM {staged}
ORDER BY 1 ON CONFLICT (interval_start) DO UPDATE SET marked_at = now()
