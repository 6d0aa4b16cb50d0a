-- Views that nothing reads go, and of the fleet's figures three counts of alerts that were made anew at each refresh.

DROP VIEW serving.fleet_minute, serving.fleet_hour, serving.rejected, serving.fleet_figures;

CREATE VIEW serving.fleet_figures AS
SELECT count(*)::integer AS vehicles,
       count(*) FILTER (WHERE state <> 'silent')::integer AS reporting,
       count(*) FILTER (WHERE state = 'moving')::integer AS moving,
       count(*) FILTER (WHERE state = 'idling')::integer AS idling,
       count(*) FILTER (WHERE state = 'parked')::integer AS parked,
       avg(speed_kmh) FILTER (WHERE state = 'moving') AS speed_moving_kmh
FROM serving.fleet_latest;
COMMENT ON VIEW serving.fleet_figures IS 'One row: the fleet now';
GRANT SELECT ON serving.fleet_figures TO odograph_dashboard, odograph_ingest;
