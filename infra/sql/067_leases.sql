-- Who acts for what must exist once (stream jobs, event store, downlink, periodic tasks): see infra/clients/leases.py.

CREATE TABLE odograph.lease (
    name       text PRIMARY KEY,
    epoch      bigint      NOT NULL,
    holder     text        NOT NULL,
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE odograph.lease IS 'Of several processes that are the same singleton the one that acts';
COMMENT ON COLUMN odograph.lease.epoch IS 'fencing token: one more with each taking; whoever holds an older one writes nothing';
COMMENT ON COLUMN odograph.lease.holder IS 'ODOGRAPH_LEASE_HOLDER, else host and home of the process';
COMMENT ON COLUMN odograph.lease.expires_at IS 'by this server''s clock; its holder moves it on, another may take it after that';
GRANT SELECT, INSERT, UPDATE ON odograph.lease TO odograph_ingest;

CREATE FUNCTION odograph.take_lease(wanted text, taker text, ttl_s double precision, from_itself boolean)
RETURNS TABLE (taken bigint, holds text) LANGUAGE plpgsql AS $$
DECLARE
    lock_no CONSTANT bigint := hashtext('odograph lease ' || wanted);
BEGIN
    INSERT INTO odograph.lease VALUES (wanted, 0, '', '-infinity') ON CONFLICT DO NOTHING;
    PERFORM FROM odograph.lease
    WHERE name = wanted AND (expires_at <= clock_timestamp() OR (from_itself AND holder = taker)) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT NULL::bigint, holder FROM odograph.lease WHERE name = wanted;
        RETURN;
    END IF;
    -- Every session of the holder before has this lock (Term.join): it ends, with the transaction it may stand still in.
    PERFORM pg_terminate_backend(pid, 2000) FROM pg_locks
    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (classid::bigint << 32 | objid::bigint) = lock_no AND objsubid = 1 AND pid <> pg_backend_pid();
    PERFORM pg_advisory_xact_lock(lock_no);
    RETURN QUERY UPDATE odograph.lease
    SET epoch = epoch + 1, holder = taker, expires_at = clock_timestamp() + ttl_s * INTERVAL '1 second'
    WHERE name = wanted RETURNING epoch, holder;
END
$$;
COMMENT ON FUNCTION odograph.take_lease IS 'Takes a lease that has expired, or from_itself one that this taker held; taken: its new epoch, null where another one has it; holds: who';
REVOKE EXECUTE ON FUNCTION odograph.take_lease FROM PUBLIC;
GRANT EXECUTE ON FUNCTION odograph.take_lease TO odograph_ingest;
