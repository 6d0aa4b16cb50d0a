-- What of sums over vehicles holds an erased one's part: a replay makes it without.

CREATE TABLE odograph.erased_window (window_start timestamptz PRIMARY KEY);
COMMENT ON TABLE odograph.erased_window IS 'Begins of road windows, and minutes of the fleet, that hold a part of a vehicle that was erased since';
REVOKE ALL ON odograph.erased_window FROM PUBLIC, odograph_ingest, odograph_dashboard, odograph_dispatch;
GRANT SELECT ON odograph.erased_window TO odograph_ingest;
