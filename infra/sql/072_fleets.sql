-- Fleets: which vehicles are whose, and who may drive one for a while. Readers of a fleet use schema tenant: the views of serving over
-- their own vehicles' rows, made by infra/sql/tenants.py after each migration. Who is of no fleet reads serving as before.

CREATE TABLE odograph.fleet_vehicle (
    vehicle_id text PRIMARY KEY,
    fleet      text NOT NULL CHECK (fleet ~ '^[A-Za-z0-9_-]{1,40}$')
);
CREATE INDEX fleet_vehicle_by_fleet ON odograph.fleet_vehicle (fleet);
COMMENT ON TABLE odograph.fleet_vehicle IS 'Whose a vehicle is; one that is not listed is the operator''s alone';

CREATE TABLE odograph.driver_grant (
    driver     text        NOT NULL,
    vehicle_id text        NOT NULL,
    from_at    timestamptz NOT NULL,
    until_at   timestamptz NOT NULL CHECK (until_at > from_at),
    PRIMARY KEY (driver, vehicle_id, from_at)
);
COMMENT ON TABLE odograph.driver_grant IS 'Which vehicle a driver, as signed in, may look at, and for how long';

CREATE SCHEMA fleet;
COMMENT ON SCHEMA fleet IS 'The tables of odograph as a fleet may see them: for the views of schema tenant only';
CREATE VIEW fleet.own WITH (security_barrier) AS
SELECT v.vehicle_id FROM odograph.fleet_vehicle v
WHERE v.fleet = ANY (string_to_array(current_setting('odograph.fleets', true), ','))
UNION
SELECT d.vehicle_id FROM odograph.driver_grant d
WHERE d.driver = current_setting('odograph.driver', true) AND now() >= d.from_at AND now() < d.until_at;
COMMENT ON VIEW fleet.own IS 'The vehicles of this session: of the fleets in odograph.fleets, and those lent to the driver in odograph.driver; else none';

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.fleet_vehicle, odograph.driver_grant TO odograph_ingest;
CREATE TRIGGER audited AFTER INSERT OR UPDATE ON odograph.fleet_vehicle FOR EACH ROW EXECUTE FUNCTION odograph.audit_row('fleet given', '', 'fleet');
CREATE TRIGGER audited AFTER INSERT OR UPDATE ON odograph.driver_grant FOR EACH ROW
    EXECUTE FUNCTION odograph.audit_row('vehicle lent', '', 'driver', 'from_at', 'until_at');
