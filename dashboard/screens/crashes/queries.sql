-- Queries about crash records: the vault.

-- name: crash_list(vehicle_id, verdict)
-- Records without their curves, the newest first; ``defects``: how many; null: not checked
SELECT vehicle_id, boot_id, crash_id, event_time, received_at, profile, delta_v_max_kmh, airbag_deployed,
       complete, hash_ok, signature, jsonb_array_length(defects) AS defects, locked_at, verdict,
       lat_deg, lon_deg, reasons, concat_ws('/', vehicle_id, boot_id, crash_id) AS record_name
FROM serving.crash_record
WHERE (%(vehicle_id)s::text IS NULL OR vehicle_id = %(vehicle_id)s)
  AND (%(verdict)s::text IS NULL OR verdict = %(verdict)s)
ORDER BY event_time DESC, vehicle_id, crash_id LIMIT 500

-- name: crash(vehicle_id, boot_id, crash_id)
-- One record with its integrity: one row or none
SELECT c.*, i.digest, i.noted_digest, i.unchanged, i.raw_kept
FROM serving.crash_record c JOIN serving.crash_integrity i USING (vehicle_id, boot_id, crash_id)
WHERE (vehicle_id, boot_id, crash_id) = (%(vehicle_id)s, %(boot_id)s, %(crash_id)s)

-- name: delta_v(vehicle_id, boot_id, crash_id)
-- Change of velocity after time zero, km/h, a row a point
SELECT * FROM serving.crash_delta_v
WHERE (vehicle_id, boot_id, crash_id) = (%(vehicle_id)s, %(boot_id)s, %(crash_id)s)
ORDER BY sample LIMIT 2000

-- name: pre_crash(vehicle_id, boot_id, crash_id)
-- The samples before time zero, the last at 0 ms
SELECT * FROM serving.crash_pre_crash
WHERE (vehicle_id, boot_id, crash_id) = (%(vehicle_id)s, %(boot_id)s, %(crash_id)s)
ORDER BY sample LIMIT 2000

-- name: custody(vehicle_id, boot_id, crash_id)
-- What was done with a record, the newest 200 entries in their order
SELECT * FROM (
    SELECT * FROM serving.custody_link
    WHERE (vehicle_id, boot_id, crash_id) = (%(vehicle_id)s, %(boot_id)s, %(crash_id)s)
    ORDER BY entry DESC LIMIT 200) c
ORDER BY entry
