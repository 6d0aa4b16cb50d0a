-- A silence that is no longer wanted ends before its time, by hand, and it stays known by whom.

ALTER TABLE odograph.alert_silence ADD COLUMN ended_by text;
COMMENT ON COLUMN odograph.alert_silence.ended_by IS 'who ended it before its time, at until_at; null: nobody';

CREATE FUNCTION dispatch.end_silence(numbers bigint[], who text) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    who := dispatch.words('name', who, 80);
    -- As dispatch.silence: the file beside the table is written by one after the other.
    LOCK TABLE odograph.alert_silence IN SHARE ROW EXCLUSIVE MODE;
    RETURN QUERY UPDATE odograph.alert_silence s
        SET until_at = greatest(now(), s.from_at + INTERVAL '1 microsecond'), ended_by = who
        WHERE s.silence_no = ANY(numbers) AND s.until_at > now() RETURNING s.silence_no;
END $$;
COMMENT ON FUNCTION dispatch.end_silence IS 'Alerts are told again from now on; the numbers of the silences that were in force';

REVOKE ALL ON FUNCTION dispatch.end_silence FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dispatch.end_silence TO odograph_dispatch, odograph_ingest;

CREATE OR REPLACE VIEW serving.alert_silence AS
SELECT silence_no, rule, vehicle_id, from_at, until_at, until_at > now() AS in_force, by_whom, why, ended_by FROM odograph.alert_silence;
COMMENT ON VIEW serving.alert_silence IS 'Silences asked for, those that are over too; ended_by: who ended it at until_at, before its time';

-- Growth of folders: over how long it was watched, because what grew for minutes tells nothing of a day.

CREATE OR REPLACE VIEW serving.storage AS
SELECT n.place, n.at, n.bytes, n.free_bytes,
       (n.bytes - d.bytes) / nullif(extract(epoch FROM n.at - d.at), 0)::double precision * 86400 AS growth_per_day,
       extract(epoch FROM n.at - d.at)::double precision AS grown_over_s
FROM (SELECT DISTINCT ON (place) place, at, bytes, free_bytes FROM odograph.storage_sample
      WHERE at > now() - INTERVAL '1 day' ORDER BY place, at DESC) n
LEFT JOIN LATERAL (
    SELECT at, bytes FROM odograph.storage_sample s
    WHERE s.place = n.place AND s.at >= n.at - INTERVAL '1 day' AND s.at < n.at ORDER BY s.at LIMIT 1
) d ON true;
COMMENT ON VIEW serving.storage IS 'How big each folder is, bytes, and by how much it grew, bytes a day, over the last grown_over_s, at most a day';
