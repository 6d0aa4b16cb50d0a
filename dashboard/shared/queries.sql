-- Queries of several pages.

-- name: freshness
-- One row: how new the data is and what was late, quarantined, dead; ``now`` is the database's clock
SELECT *, now() AS now FROM serving.freshness

-- name: promoted_runs
-- Promoted runs: within their spans the views give their rows; no row: everything is live
SELECT * FROM serving.reading ORDER BY promoted_at DESC LIMIT 10

-- name: rules
-- The rules as the jobs last started with them
SELECT * FROM serving.rule ORDER BY rule LIMIT 1000

-- name: road_networks
-- One row: the road layer's extent and a ``version`` that changes when it does; nulls: no roads
SELECT max(network) || '-' || count(*) || '-' || max(edge_id) AS version,
       min((path -> 0 ->> 1)::double precision) AS south,
       max((path -> 0 ->> 1)::double precision) AS north,
       min((path -> 0 ->> 0)::double precision) AS west, max((path -> 0 ->> 0)::double precision) AS east
FROM serving.road_edge

-- name: road_edges
-- The road layer; ``path`` is [[lon, lat], ...]
SELECT network, edge_id, road_class, speed_limit_kmh, path FROM serving.road_edge
ORDER BY network, edge_id LIMIT 50000

-- name: vehicle(vehicle_id)
-- The newest state of one vehicle: one row or none
SELECT * FROM serving.fleet_latest WHERE vehicle_id = %(vehicle_id)s

-- name: find_vehicles(words)
-- Vehicles whose id or model has these words in it, whatever their case
SELECT * FROM serving.fleet_latest
WHERE position(lower(%(words)s) IN lower(vehicle_id)) > 0
   OR position(lower(%(words)s) IN lower(model)) > 0
ORDER BY lower(vehicle_id) <> lower(%(words)s), alerts DESC, vehicle_id LIMIT 20

-- name: alerts(vehicle_id = NULL, severities = NULL, active = NULL, rule = NULL, numbers = NULL, most = 500)
-- Alerts (of these ``numbers``), active and new first, then the worst; ``rule``: with or without part
SELECT *, CASE WHEN starts_with(rule, 'crash') THEN (
           SELECT v.verdict FROM serving.alert_verdict v WHERE v.alert_no = a.alert_no) END AS verdict
FROM serving.alert_triage a
WHERE (%(vehicle_id)s::text IS NULL OR vehicle_id = %(vehicle_id)s)
  AND (%(severities)s::text[] IS NULL OR severity = ANY(%(severities)s::text[]))
  AND (%(active)s::boolean IS NULL OR active = %(active)s)
  AND (%(rule)s::text IS NULL OR %(rule)s IN (rule, split_part(rule, '.', 1)))
  AND (%(numbers)s::bigint[] IS NULL OR alert_no = ANY(%(numbers)s::bigint[]))
ORDER BY active DESC, acknowledged_at IS NULL DESC,  -- as the index has it
         array_position(ARRAY['WARNING', 'MINOR', 'MAJOR', 'CRITICAL'], severity) DESC, opened_at DESC
LIMIT %(most)s

-- name: incidents(vehicle_id = NULL, severities = NULL, active = NULL, cause = NULL, assigned = NULL, seen = NULL, numbers = NULL, most = 500)
-- Incidents, active and worst first; of a vehicle, those of the fleet that it has a share in too.
-- ``assigned``: to whom, or nobody; ``seen``: acknowledged
SELECT i.*, extract(epoch FROM coalesce(closed_at, now()) - i.opened_at)::double precision AS age_s
FROM serving.incident_listed l JOIN serving.incident i USING (incident_no)
WHERE (%(vehicle_id)s::text IS NULL OR l.incident_no = ANY(ARRAY(
       SELECT a.incident_no FROM serving.incident_alert a WHERE a.vehicle_id = %(vehicle_id)s)))
  AND (%(severities)s::text[] IS NULL OR l.severity = ANY(%(severities)s::text[]))
  AND (%(active)s::boolean IS NULL OR l.active = %(active)s)
  AND (%(cause)s::text IS NULL OR %(cause)s IN (cause, split_part(cause, ' ', 1)))
  AND (%(assigned)s::text IS NULL OR coalesce(assigned_to, 'nobody') = %(assigned)s)
  AND (%(seen)s::boolean IS NULL OR l.unseen <> %(seen)s)
  AND (%(numbers)s::bigint[] IS NULL OR l.incident_no = ANY(%(numbers)s::bigint[]))
ORDER BY l.active DESC, l.severity_rank DESC, l.unseen DESC, l.opened_at DESC
LIMIT %(most)s
