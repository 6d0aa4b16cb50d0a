-- Only where TimescaleDB's community edition is at work: how long its aggregates and their policies reach, and where they differ from the
-- tables of the roll-ups. What is restated further back than a policy reaches is refreshed by whoever restates it (infra/sql/continuous.py).

SELECT remove_retention_policy('odograph.query_progress', if_exists => true);

-- A refresh over dropped windows would delete their aggregates: a policy looks back less than ODOGRAPH_RETENTION_WINDOWS_DAYS can be.
SELECT remove_continuous_aggregate_policy('odograph.vehicle_minute_continuous', if_exists => true);
SELECT remove_continuous_aggregate_policy('odograph.vehicle_hour_continuous', if_exists => true);
SELECT add_continuous_aggregate_policy('odograph.vehicle_minute_continuous', start_offset => INTERVAL '20 hours',
    end_offset => INTERVAL '2 minutes', schedule_interval => INTERVAL '1 minute');
SELECT add_continuous_aggregate_policy('odograph.vehicle_hour_continuous', start_offset => INTERVAL '20 hours',
    end_offset => INTERVAL '1 hour', schedule_interval => INTERVAL '10 minutes');

GRANT SELECT ON odograph.vehicle_minute_continuous, odograph.vehicle_hour_continuous TO odograph_ingest;

DROP VIEW serving.rollup_difference;
CREATE FUNCTION serving.rollup_difference(since timestamptz, until timestamptz)
RETURNS TABLE (unit text, vehicle_id text, bucket timestamptz, windows bigint, continuous_windows bigint,
               distance_m double precision, continuous_distance_m double precision)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT 'minute', vehicle_id, bucket, k.windows, c.windows, k.distance_m, c.distance_m
    FROM (SELECT * FROM odograph.vehicle_minute m
          WHERE m.bucket >= since AND m.bucket < least(until, now() - INTERVAL '10 minutes')) k
    FULL JOIN (SELECT * FROM odograph.vehicle_minute_continuous m
               WHERE m.bucket >= since AND m.bucket < least(until, now() - INTERVAL '10 minutes')) c USING (vehicle_id, bucket)
    WHERE (k.windows, k.samples, k.distance_m, k.fuel_l, k.coolant_mean_c, k.speed_mean_kmh)
          IS DISTINCT FROM (c.windows, c.samples, c.distance_m, c.fuel_l, c.coolant_mean_c, c.speed_mean_kmh)
    UNION ALL
    SELECT 'hour', vehicle_id, bucket, k.windows, c.windows, k.distance_m, c.distance_m
    FROM (SELECT * FROM odograph.vehicle_hour h
          WHERE h.bucket >= since AND h.bucket < least(until, now() - INTERVAL '3 hours')) k
    FULL JOIN (SELECT * FROM odograph.vehicle_hour_continuous h
               WHERE h.bucket >= since AND h.bucket < least(until, now() - INTERVAL '3 hours')) c USING (vehicle_id, bucket)
    WHERE (k.windows, k.samples, k.distance_m, k.fuel_l, k.coolant_mean_c, k.speed_mean_kmh)
          IS DISTINCT FROM (c.windows, c.samples, c.distance_m, c.fuel_l, c.coolant_mean_c, c.speed_mean_kmh)
      AND NOT EXISTS (SELECT FROM odograph.rollup_zone z
                      WHERE extract(minute FROM timezone(z.tz, since) - timezone('UTC', since)) <> 0)
$$;
COMMENT ON FUNCTION serving.rollup_difference IS 'Minutes and hours from since to until in which roll-ups and continuous aggregates differ, or that one of them lacks; the newest 10 minutes and 3 hours are not refreshed yet and left out, hours also in zones that begin them within an hour of UTC';
CREATE VIEW serving.rollup_difference AS
SELECT * FROM serving.rollup_difference(now() - INTERVAL '7 days', now());
COMMENT ON VIEW serving.rollup_difference IS 'The same over the last 7 days; other spans: serving.rollup_difference(since, until)';
REVOKE ALL ON FUNCTION serving.rollup_difference FROM PUBLIC;
GRANT EXECUTE ON FUNCTION serving.rollup_difference TO odograph_dashboard, odograph_ingest;
GRANT SELECT ON serving.rollup_difference TO odograph_dashboard, odograph_ingest;
