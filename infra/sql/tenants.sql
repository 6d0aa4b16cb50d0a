-- Statements of tenants.py.

-- name: tables
SELECT c.relname, EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'vehicle_id'
                          AND NOT a.attisdropped)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v') ORDER BY c.relname

-- name: take
-- Of a change of fleets the audit log is told by the new row; of one that has no new row here.
WITH taken AS (DELETE FROM odograph.fleet_vehicle WHERE vehicle_id = ANY(%(vehicles)s) RETURNING vehicle_id, fleet)
SELECT odograph.audit_append('fleet taken', vehicle_id, 'fleet ' || fleet) FROM taken WHERE %(fleet)s = ''

-- name: served
SELECT 'CREATE VIEW serving.' || quote_ident(c.relname) || ' WITH (security_barrier) AS '
       || pg_get_viewdef(c.oid), c.oid::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'serving' AND c.relkind = 'v'
UNION ALL
SELECT pg_get_functiondef(p.oid), p.oid::bigint
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'serving'
ORDER BY 2

-- name: fleet_minute
-- The one table that sums up vehicles and can be summed up anew.
CREATE VIEW fleet.fleet_minute WITH (security_barrier) AS
SELECT bucket AS minute, count(*) AS vehicles, count(*) FILTER (WHERE moving_s > 0) AS moving,
       count(*) FILTER (WHERE moving_s > 0 OR idle_s > 0) AS on_road, sum(frames) AS frames,
       sum(samples) AS samples, sum(distance_m) AS distance_m, sum(moving_s) AS moving_s,
       sum(idle_s) AS idle_s, sum(fuel_l) AS fuel_l,
       sum(distance_m) FILTER (WHERE fuel_l IS NOT NULL) AS fuel_distance_m, sum(energy_kwh) AS energy_kwh,
       sum(distance_m) FILTER (WHERE energy_kwh IS NOT NULL) AS energy_distance_m
FROM fleet.vehicle_minute GROUP BY bucket

-- name: grants
GRANT USAGE ON SCHEMA tenant TO odograph_tenant;
GRANT SELECT ON ALL TABLES IN SCHEMA tenant TO odograph_tenant;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenant FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tenant TO odograph_tenant;

-- name: is_made
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'tenant')

-- name: lend
INSERT INTO odograph.driver_grant VALUES (%s, %s, now(), now() + make_interval(secs => %s))
