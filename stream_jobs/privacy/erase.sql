-- Statements of erase.py.

-- name: sent
-- By its own clock, and by the receipt of frames whose clock was not believed or that came late.
SELECT extract(epoch FROM now() - max(heard_at)) FROM (
    SELECT event_time AS heard_at FROM odograph.vehicle_latest WHERE vehicle_id = %(vehicle)s
    UNION ALL SELECT received_at FROM odograph.late_frame WHERE vehicle_id = %(vehicle)s
    UNION ALL SELECT received_at FROM odograph.quarantined_frame WHERE vehicle_id = %(vehicle)s) sent

-- name: crashes
SELECT c.vehicle_id, c.boot_id, c.crash_id, l.crash_id IS NOT NULL FROM odograph.crash_record c
LEFT JOIN odograph.crash_lock l USING (vehicle_id, boot_id, crash_id) WHERE c.vehicle_id = %s

-- name: letters
UPDATE odograph.dead_letter SET vehicle_id = %(name)s, detail = NULL, mqtt_topic = NULL
WHERE vehicle_id = %(vehicle)s OR strpos(mqtt_topic, %(vehicle)s) > 0 OR strpos(detail, %(vehicle)s) > 0

-- name: reinjections
-- Those of dead letters that were appended again.
UPDATE odograph.reinjection r SET log_offset = m.new
FROM (SELECT new, digest, max(old) AS old FROM unnest(%(old)s::bigint[], %(new)s::bigint[]) AS m(old, new)
      JOIN odograph.reinjection ON log_offset = old GROUP BY new, digest) m
WHERE r.log_offset = m.old AND r.digest = m.digest

-- name: letters_before
-- What was appended again, at its place before; letters of another log have such offsets too, and stay.
DELETE FROM odograph.dead_letter WHERE log_offset = ANY(%(old)s) AND (log_generation = '' OR log_generation IN (
    SELECT log_generation FROM odograph.consumer_offset WHERE consumer = 'events' AND topic = 'dead-letter'))

-- name: parts
INSERT INTO odograph.erased_window
SELECT DISTINCT date_bin(make_interval(secs => length), window_start, 'epoch'::timestamptz)
FROM odograph.vehicle_window, unnest(ARRAY[60, %(road_s)s]) length WHERE vehicle_id = %(vehicle)s
ON CONFLICT DO NOTHING

-- name: archived
SELECT partition, log_offset, received_ms, value, topic, verdict
FROM read_parquet($files, hive_partitioning = false) WHERE vehicle_id = $vehicle AND verdict IN ('ok', 'late')

-- name: alone
-- Windows of places in which the vehicle was alone; the same of their five minutes.
DELETE FROM odograph.{0}_window w USING unnest(%s::{1}[], %s::integer[], %s::timestamptz[]) m(a, b, at)
WHERE w.{2} = m.a AND w.{3} = m.b AND w.window_start = m.at AND w.vehicles <= 1

-- name: queue
UPDATE odograph.window_change SET vehicles = array_remove(vehicles, %(vehicle)s)
WHERE %(vehicle)s = ANY(vehicles)

-- name: begins
INSERT INTO odograph.log_begin SELECT topic, partition, log_generation, %s FROM odograph.consumer_offset
WHERE consumer = 'events' AND topic = %s AND partition = %s
ON CONFLICT (topic, partition, log_generation) DO UPDATE SET begins_at = excluded.begins_at

-- name: read
SELECT topic, partition, next_offset FROM odograph.consumer_offset
WHERE consumer = 'events' AND region = odograph.acting_region()

-- name: rewritten
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid IN (SELECT to_regclass(name) FROM unnest(%(names)s::text[]) AS name)
UNION
SELECT z.schema_name, z.table_name
FROM _timescaledb_catalog.chunk c JOIN _timescaledb_catalog.chunk z ON z.id = c.compressed_chunk_id
WHERE c.schema_name || '.' || c.table_name = ANY(%(names)s)

-- name: log
-- A segment of zeros for each that there is: behind a checkpoint the next ones are old ones, renamed as they were.
SELECT pg_logical_emit_message(false, 'odograph', ''), pg_switch_wal() FROM pg_ls_waldir()
