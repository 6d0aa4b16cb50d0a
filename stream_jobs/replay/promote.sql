-- Statements of promote.py.

-- name: promoted
UPDATE odograph.replay_run
SET state = 'promoted', promoted_at = clock_timestamp(), promoted_by = %s, rolled_back_at = NULL
WHERE run_id = %s

-- name: back
UPDATE odograph.replay_run SET state = 'rolled back', rolled_back_at = clock_timestamp() WHERE run_id = %s

-- name: read_now
SELECT 'run_' || run_id, since, until, vehicles FROM odograph.replay_run WHERE state = 'promoted' ORDER BY promoted_at

-- name: views
SELECT 'view', n.nspname || '.' || c.relname,
       'CREATE OR REPLACE VIEW ' || n.nspname || '.' || c.relname || ' AS ' || pg_get_viewdef(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'serving' AND c.relkind = 'v'
UNION ALL
SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'serving'
ORDER BY 1, 2

-- name: clock
-- The dashboard's connections look for functions in schema replay first.
CREATE SCHEMA IF NOT EXISTS replay;
CREATE OR REPLACE FUNCTION replay.now() RETURNS timestamptz LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT max(event_time) FROM odograph.vehicle_latest), pg_catalog.now())
$$;
GRANT USAGE ON SCHEMA replay TO odograph_dashboard, odograph_ingest;

-- name: lacking
SELECT o.attname, format_type(o.atttypid, o.atttypmod)
FROM pg_attribute o LEFT JOIN pg_attribute c ON c.attrelid = %(copy)s::regclass AND c.attname = o.attname
WHERE o.attrelid = %(own)s::regclass AND o.attnum > 0 AND NOT o.attisdropped AND c.attname IS NULL
ORDER BY o.attnum

-- name: lock
SELECT pg_advisory_xact_lock(hashtext('odograph replay'))

-- name: state
SELECT state FROM odograph.replay_run WHERE run_id = %s

