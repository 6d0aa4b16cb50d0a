-- Plainer names of what recompute and replay use, in place: rows, indexes, privileges and promoted runs stay as they are.

SET LOCAL search_path = pg_catalog;

-- Late frames of a vehicle: the queue of journeys to restate ---------------------------------------------------------------------

ALTER TABLE odograph.journey_behind RENAME TO late_vehicle_frames;
ALTER INDEX odograph.journey_behind_pkey RENAME TO late_vehicle_frames_pkey;
ALTER INDEX odograph.journey_behind_noted_at_idx RENAME TO late_vehicle_frames_noted_at_idx;
ALTER INDEX odograph.journey_behind_alerts RENAME TO late_vehicle_frames_alerts;
COMMENT ON COLUMN odograph.late_vehicle_frames.alerts_at IS 'when stateful rules were run over these frames in their order';

-- Stored windows without a frame in the archive ------------------------------------------------------------------------------------

ALTER TABLE odograph.recompute_run RENAME COLUMN unfounded TO orphaned;
ALTER VIEW serving.recompute_run RENAME COLUMN unfounded TO orphaned;
COMMENT ON COLUMN odograph.recompute_run.orphaned IS 'stored windows that have no frame in the archive: left as they are';

-- Promoted views -------------------------------------------------------------------------------------------------------------------

ALTER TABLE odograph.reading_before RENAME TO view_backup;
ALTER INDEX odograph.reading_before_pkey RENAME TO view_backup_pkey;
COMMENT ON TABLE odograph.view_backup IS 'What reads promoted views now: the statement that makes it as it was before, and its text since';

CREATE FUNCTION pg_temp.definition(kind text, name text) RETURNS text LANGUAGE sql AS $$
    SELECT CASE kind WHEN 'view' THEN 'CREATE OR REPLACE VIEW ' || name || ' AS ' || pg_get_viewdef(to_regclass(name))
                     ELSE pg_get_functiondef(to_regprocedure(name)) END
$$;

DO $$
DECLARE
    kept record;
    body text;
BEGIN
    -- What a migration changed since the promotion differs from the text that was kept: a rollback leaves it alone, before and after.
    CREATE TEMP TABLE as_promoted ON COMMIT DROP AS
    SELECT b.kind, b.name FROM odograph.view_backup b WHERE pg_temp.definition(b.kind, b.name) = b.promoted;
    ALTER SCHEMA reading RENAME TO promoted;
    FOR kept IN SELECT name FROM odograph.view_backup WHERE kind = 'function' AND to_regprocedure(name) IS NOT NULL LOOP
        body := pg_get_functiondef(to_regprocedure(kept.name));
        EXECUTE regexp_replace(body, '\mreading\.(?=[a-z])', 'promoted.', 'g');
    END LOOP;
    UPDATE odograph.view_backup b SET promoted = pg_temp.definition(b.kind, b.name)
    FROM as_promoted a WHERE a.kind = b.kind AND a.name = b.name;
END
$$;
COMMENT ON SCHEMA promoted IS 'Promoted views: a table of odograph with the rows of promoted runs in their place; there only while a run is promoted';

-- Comments -------------------------------------------------------------------------------------------------------------------------

COMMENT ON TABLE odograph.stop_place IS 'Hexagon of 0.015 km2 (H3 r10) of each stop of trip_stop, filled by a periodic task; where the stop has moved since, it is filled again';
COMMENT ON TABLE odograph.trend_metric IS 'What is followed: data, to be changed by whoever runs the fleet; the periodic task reads it at its next pass';
COMMENT ON TABLE odograph.audit_hour IS 'The conservation ledger of each hour of first samples (UTC), as the periodic task found it last; columns: stream_jobs/audit/account.py';
COMMENT ON TABLE odograph.retention IS 'Hypertables whose old chunks are dropped; kept_days as the periodic task found it in the settings, null: for ever';
COMMENT ON TABLE odograph.fleet_minute IS 'The minutes of all vehicles (vehicle_minute) in one row a minute, made by the periodic task of the roll-ups in the same transaction';
