-- TimescaleDB lets only its owner refresh a continuous aggregate, by no grant and through no function: they go to a role of which who
-- restates is a member, so that no program needs the owner's login. It reads what they are made of, and owns nothing else.

GRANT USAGE ON SCHEMA odograph TO odograph_aggregates;
GRANT SELECT, TRIGGER ON odograph.vehicle_window TO odograph_aggregates;
DO $$
BEGIN
    GRANT CREATE ON SCHEMA odograph TO odograph_aggregates;
    ALTER MATERIALIZED VIEW odograph.vehicle_minute_continuous OWNER TO odograph_aggregates;
    ALTER MATERIALIZED VIEW odograph.vehicle_hour_continuous OWNER TO odograph_aggregates;
    REVOKE CREATE ON SCHEMA odograph FROM odograph_aggregates;
EXCEPTION WHEN insufficient_privilege THEN -- an owner that is no superuser: their tables lie in a schema of TimescaleDB's own
    RAISE WARNING 'the continuous aggregates stay with %: %', current_user, SQLERRM;
END $$;
