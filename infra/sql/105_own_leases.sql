-- Each program takes, renews and gives back the lease of its own name: who logs in as a member of its role. odograph_ingest is one of all.

ALTER TABLE odograph.lease ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON odograph.lease FOR SELECT USING (true);
-- That a name is missing the table itself says.
CREATE POLICY own ON odograph.lease
    USING (name IS NULL OR pg_has_role(coalesce(to_regrole('odograph_' || name)::text, 'odograph_ingest'), 'USAGE'));
