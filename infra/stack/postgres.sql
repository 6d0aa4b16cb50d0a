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

-- name: erases
-- What it takes to write over the server's own log (stream_jobs/privacy).
GRANT EXECUTE ON FUNCTION pg_switch_wal(), pg_ls_waldir() TO odograph_owner;
GRANT pg_checkpoint TO odograph_owner;

-- name: follows
SELECT pg_is_in_recovery()

-- name: streams
SELECT state, sync_state FROM pg_stat_replication

-- name: lag
SELECT sync_state, pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint FROM pg_stat_replication
WHERE state = 'streaming'
