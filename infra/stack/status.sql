-- Statements of status.py.

-- name: leases
SELECT name, holder, epoch FROM odograph.lease WHERE expires_at > clock_timestamp()

-- name: times
SELECT round(extract(epoch FROM now() - max(event_time)), 3)::double precision AS newest_behind_s,
       (SELECT round(extract(epoch FROM now() - watermark), 3)::double precision FROM odograph.query_progress
        WHERE query = 'telemetry' AND at > now() - INTERVAL '1 day' ORDER BY at DESC LIMIT 1)
           AS watermark_behind_s,
       round((percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM updated_at - event_time))
           FILTER (WHERE updated_at > now() - INTERVAL '1 minute'))::numeric, 3)::double precision
           AS event_to_view_p50_s,
       round((percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM updated_at - event_time))
           FILTER (WHERE updated_at > now() - INTERVAL '1 minute'))::numeric, 3)::double precision
           AS event_to_view_p99_s
FROM odograph.vehicle_latest

-- name: tables
-- about_rows is the database's estimate; kept_days null: for ever.
SELECT schema || '.' || name AS name, bytes, about_rows, since, kept_days, dropped_before FROM serving.table_size
ORDER BY bytes DESC, 1

-- name: skews
SELECT reader, topic, partitions, most, most_partition, median, ratio FROM serving.partition_skew
ORDER BY ratio DESC, reader, topic

-- name: top_keys
SELECT topic, vehicle_id, partition, share, rate_per_s FROM serving.top_key ORDER BY share DESC
