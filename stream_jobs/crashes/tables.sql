-- Statements of tables.py.

-- name: records
SELECT vehicle_id, boot_id, crash_id, event_time, profile, delta_v_max_kmh, airbag_deployed, hash_ok, verdict,
       locked_at, defects, received_at, signature
FROM serving.crash_record
WHERE (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
  AND (%(verdict)s::text IS NULL OR verdict = %(verdict)s)
ORDER BY event_time DESC, vehicle_id, crash_id LIMIT %(limit)s

-- name: named
SELECT vehicle_id, boot_id, crash_id FROM serving.crash_record
WHERE crash_id = %(crash)s AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
  AND (%(boot)s::bigint IS NULL OR boot_id = %(boot)s)
ORDER BY vehicle_id, boot_id

-- name: locked
SELECT odograph.crash_lock_set(%(vehicle_id)s, %(boot_id)s, %(crash_id)s, %(by)s, %(why)s, %(signature)s)
       AS done

-- name: exported
SELECT dispatch.crash_exported(%(vehicle_id)s, %(boot_id)s, %(crash_id)s, %(by)s, %(basis)s, %(digest)s,
                               %(signature)s) AS done

-- name: deleted
SELECT odograph.crash_retire(%(vehicle_id)s, %(boot_id)s, %(crash_id)s, %(why)s, %(signature)s) AS done

-- name: digest
SELECT digest FROM serving.crash_integrity 
WHERE vehicle_id = %(vehicle_id)s AND boot_id = %(boot_id)s AND crash_id = %(crash_id)s

-- name: shown
SELECT vehicle_id, boot_id, crash_id, event_time, received_at, profile, delta_v_max_kmh, airbag_deployed,
       complete, hash_ok, lat_deg, lon_deg, record, record::text AS record_text, raw, locked_at, signature
FROM serving.crash_record

-- name: stores
SELECT rolname FROM pg_roles WHERE rolcanlogin AND NOT rolsuper AND pg_has_role(oid, %s, 'USAGE')

-- name: custody
SELECT * FROM odograph.custody WHERE entry >= %(since)s ORDER BY entry

-- name: read_to
SELECT partition, next_offset, log_generation, coalesce(begins_at, 0) AS begins_at
FROM odograph.consumer_offset LEFT JOIN odograph.log_begin USING (topic, partition, log_generation)
WHERE consumer = 'events' AND topic = 'crash' AND region = odograph.acting_region()

-- name: dead
SELECT DISTINCT digest FROM odograph.dead_letter WHERE mqtt_topic LIKE '%/crash'
