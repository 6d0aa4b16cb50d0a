-- Statements of postgres.py.

-- name: user_tables
-- Those of users' SQL, made when all programs had one login, go to the stream jobs, which made them.
DO $$
DECLARE
    of_before regclass;
BEGIN
    FOR of_before IN SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('user_sql')
                     AND relkind = 'r' AND relowner = 'odograph_ingest'::regrole LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO odograph_jobs', of_before);
    END LOOP;
END $$
