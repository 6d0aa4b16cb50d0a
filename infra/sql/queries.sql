-- Statements of queries.py.

-- name: pulse
SELECT l.frames_counted, l.records_late, f.lag_records,
       extract(epoch FROM now() - f.watermark)::double precision AS watermark_lag_s,
       (SELECT count(*) FROM serving.alert WHERE active) AS alerts_active,
       (SELECT count(*) FROM serving.fleet_latest WHERE state <> 'silent') AS vehicles_reporting
FROM serving.ledger l, serving.freshness f

-- name: network
INSERT INTO odograph.road_network (network) VALUES (%s) ON CONFLICT (network) DO UPDATE SET loaded_at = now()

-- name: no_roads
DELETE FROM odograph.road_edge WHERE network = %s

-- name: road
INSERT INTO odograph.road_edge (network, edge_id, road_class, speed_limit_kmh, length_m, path)
VALUES (%s, %s, %s, %s, %s, %s)

-- name: ask
INSERT INTO odograph.reinjection
    (partition, log_offset, digest, kafka_topic, vehicle_id, boot_id, seq, asked_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, now())
ON CONFLICT (partition, log_offset, digest) DO UPDATE SET asked_at = excluded.asked_at

-- name: done
UPDATE odograph.reinjection SET reinjected_at = now()
WHERE partition = %s AND log_offset = %s AND digest = %s

-- name: stored
SELECT log_offset, digest FROM serving.reinjection WHERE reinjected_at IS NOT NULL

-- name: ours
SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s::regclass

-- name: days
-- Whole hours of windows that are still there, in days: a refresh over dropped ones deletes their aggregates.
SELECT begins, least(begins + INTERVAL '1 day', ends)
FROM (SELECT greatest(date_trunc('hour', %(since)s::timestamptz), dropped_before) AS since,
             least(date_trunc('hour', %(until)s::timestamptz) + INTERVAL '1 hour', date_trunc('hour', now())) AS ends
      FROM odograph.retention WHERE table_name = 'vehicle_window') span,
     generate_series(since, ends, INTERVAL '1 day') AS begins
WHERE begins < ends ORDER BY begins

-- name: refresh
CALL refresh_continuous_aggregate(%s::regclass, %s::timestamptz, %s::timestamptz)

-- name: note
SELECT dispatch.audit(%s, %s, %s)

-- name: audit_log
WITH whole AS (SELECT *, count(*) FILTER (WHERE NOT holds) OVER () AS broken FROM serving.audit_log)
SELECT * FROM (SELECT * FROM whole WHERE (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
               AND (%(actor)s::text IS NULL OR actor = %(actor)s) ORDER BY entry DESC LIMIT %(limit)s) newest
ORDER BY entry

-- name: fleets
SELECT fleet, count(*) FROM odograph.fleet_vehicle GROUP BY fleet ORDER BY fleet
