-- Statements of chunks.py.

-- name: whole
-- The parts of those records of which all are there; sets: rows of what the parts of a record have in common.
SELECT vehicle_id, boot_id, crash_id, sha256, parts, part, mqtt_topic, message,
       (extract(epoch FROM received_at) * 1000)::bigint AS received_ms
FROM (SELECT p.*, count(message) OVER (PARTITION BY vehicle_id, boot_id, crash_id, sha256, parts) AS there
      FROM odograph.crash_part p JOIN (SELECT DISTINCT * FROM {sets}) k
           USING (vehicle_id, boot_id, crash_id, sha256, parts)) q
WHERE there = parts
ORDER BY vehicle_id, boot_id, crash_id, sha256, parts, part

-- name: assembled
UPDATE odograph.crash_part SET message = NULL
WHERE vehicle_id = %(vehicle_id)s AND boot_id = %(boot_id)s AND crash_id = %(crash_id)s AND sha256 = %(sha256)s
  AND parts = %(parts)s

-- name: drop
DELETE FROM odograph.crash_part
WHERE vehicle_id = %(vehicle_id)s AND boot_id = %(boot_id)s AND crash_id = %(crash_id)s AND sha256 = %(sha256)s
  AND parts = %(parts)s
