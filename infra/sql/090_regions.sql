-- Two regions: which one acts, whose log is the copy of the other's, what of a log had not been copied, whom webhooks were told.

CREATE TABLE odograph.region (
    only_row  boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    active    text        NOT NULL,
    copies_to text        NOT NULL DEFAULT '',
    since     timestamptz NOT NULL DEFAULT now(),
    judged_to timestamptz
);
COMMENT ON TABLE odograph.region IS 'Which of two regions acts; no row: there is one, without a name';
COMMENT ON COLUMN odograph.region.active IS 'programs of another region take no lease';
COMMENT ON COLUMN odograph.region.copies_to IS 'the region whose mirror copies the other one''s log; empty: none may';
COMMENT ON COLUMN odograph.region.judged_to IS 'the last sign of life of the region that acted before: what it had received by then it has judged, but for the last seconds';
GRANT SELECT ON odograph.region TO odograph_ingest;

CREATE TABLE odograph.uncopied (
    uncopied_no    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    region         text        NOT NULL,
    topic          text        NOT NULL,
    partition      integer     NOT NULL,
    from_offset    bigint      NOT NULL,
    known_to       bigint      NOT NULL,
    noted_at       timestamptz NOT NULL DEFAULT now(),
    came_at        timestamptz
);
COMMENT ON TABLE odograph.uncopied IS 'Records of a region''s log that the other one did not have at a failover, as far as anything knew of them';
COMMENT ON COLUMN odograph.uncopied.known_to IS 'the next offset after the last that anything had read; the log may be longer';
COMMENT ON COLUMN odograph.uncopied.came_at IS 'when the copy had reached the end of that log; null: not yet';
GRANT SELECT, UPDATE (came_at) ON odograph.uncopied TO odograph_ingest;

CREATE TABLE odograph.webhook_settled (
    destination text        NOT NULL,
    alert_id    text        NOT NULL,
    vehicle_id  text        NOT NULL,
    rule        text        NOT NULL,
    incident_id text        NOT NULL,
    fleet       boolean     NOT NULL,
    severity    text        NOT NULL,
    received_ms bigint      NOT NULL,
    told        boolean     NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (destination, alert_id)
);
COMMENT ON TABLE odograph.webhook_settled IS 'Alerts that a webhook was told or that were not for it: in another region''s log it is told none of them again';
CREATE INDEX webhook_settled_by_time ON odograph.webhook_settled (at);
GRANT SELECT, INSERT, DELETE ON odograph.webhook_settled TO odograph_ingest;

DROP FUNCTION odograph.take_lease(text, text, double precision, boolean);
CREATE FUNCTION odograph.take_lease(
    wanted text, taker text, ttl_s double precision, from_itself boolean, of_region text DEFAULT ''
) RETURNS TABLE (taken bigint, holds text) LANGUAGE plpgsql AS $$
DECLARE
    lock_no CONSTANT bigint := hashtext('odograph lease ' || wanted);
    others text;
BEGIN
    INSERT INTO odograph.lease VALUES (wanted, 0, '', '-infinity') ON CONFLICT DO NOTHING;
    PERFORM FROM odograph.lease
    WHERE name = wanted AND (expires_at <= clock_timestamp() OR (from_itself AND holder = taker)) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT NULL::bigint, holder FROM odograph.lease WHERE name = wanted;
        RETURN;
    END IF;
    -- With the lease's row locked: a failover changes the region and ends all leases in one transaction.
    SELECT CASE wanted WHEN 'mirror' THEN copies_to ELSE active END INTO others FROM odograph.region;
    IF others <> of_region THEN
        RETURN QUERY SELECT NULL::bigint, CASE others WHEN '' THEN 'nobody' ELSE 'region ' || others END;
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
COMMENT ON FUNCTION odograph.take_lease IS 'Takes a lease that has expired, or from_itself one that this taker held; taken: its new epoch, null where another one, or another region, has it; holds: who';
REVOKE EXECUTE ON FUNCTION odograph.take_lease FROM PUBLIC;
GRANT EXECUTE ON FUNCTION odograph.take_lease TO odograph_ingest;

COMMENT ON COLUMN odograph.late_frame.deferred IS 'in time, and in no window: put off because of overload, or its window was closed when it came to the log; in windows once repaired, as if nothing had been';
