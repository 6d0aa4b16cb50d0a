-- Driving score per 100 km, by vehicle and day: harsh events by grade and time above the limit, weighted by data.

CREATE TABLE odograph.score_weight (
    what   text NOT NULL,
    grade  smallint NOT NULL,
    points double precision NOT NULL CHECK (points >= 0),
    PRIMARY KEY (what, grade)
);
COMMENT ON TABLE odograph.score_weight IS 'Points lost (eng.); to be changed by whoever runs the fleet';
COMMENT ON COLUMN odograph.score_weight.what IS 'brake, accelerate, corner: a harsh event of that grade; speeding: a minute in the band above the limit, grade 1 to 4 for +5, +10, +20, +30 km/h';
INSERT INTO odograph.score_weight VALUES
    ('brake', 1, 1), ('brake', 2, 2), ('brake', 3, 4),
    ('accelerate', 1, 0.5), ('accelerate', 2, 1), ('accelerate', 3, 2),
    ('corner', 1, 1), ('corner', 2, 2), ('corner', 3, 4),
    ('speeding', 1, 0.5), ('speeding', 2, 1), ('speeding', 3, 2), ('speeding', 4, 4);
GRANT SELECT ON odograph.score_weight TO odograph_ingest;

CREATE VIEW serving.driving_score AS
WITH harsh AS (
    SELECT d.vehicle_id, d.bucket, count(*)::integer AS harsh_events, coalesce(sum(w.points), 0) AS points
    FROM odograph.vehicle_day d
    CROSS JOIN odograph.rollup_zone z
    JOIN odograph.harsh_event e ON e.vehicle_id = d.vehicle_id AND e.began_at >= d.bucket
        AND e.began_at < (d.bucket AT TIME ZONE z.tz + INTERVAL '1 day') AT TIME ZONE z.tz
    LEFT JOIN odograph.score_weight w ON w.what = e.kind AND w.grade = e.grade
    GROUP BY d.vehicle_id, d.bucket
), speeding AS (
    SELECT d.vehicle_id, d.bucket, sum(b.seconds / 60 * w.points) AS points
    FROM odograph.vehicle_day d
    CROSS JOIN LATERAL (VALUES (1, d.speeding_s - d.speeding_10_s), (2, d.speeding_10_s - d.speeding_20_s),
                               (3, d.speeding_20_s - d.speeding_30_s), (4, d.speeding_30_s)) AS b (grade, seconds)
    JOIN odograph.score_weight w ON w.what = 'speeding' AND w.grade = b.grade
    GROUP BY d.vehicle_id, d.bucket
), lost AS (
    SELECT d.vehicle_id, d.bucket, d.distance_m, coalesce(h.harsh_events, 0) AS harsh_events,
           coalesce(h.points, 0) AS harsh_points, coalesce(s.points, 0) AS speeding_points
    FROM odograph.vehicle_day d
    LEFT JOIN harsh h USING (vehicle_id, bucket)
    LEFT JOIN speeding s USING (vehicle_id, bucket)
    WHERE d.distance_m >= 1000
)
SELECT vehicle_id, bucket, distance_m / 1000 AS distance_km, harsh_events, harsh_points, speeding_points,
       (harsh_points + speeding_points) / distance_m * 100000 AS points_per_100km,
       greatest(0, 100 - (harsh_points + speeding_points) / distance_m * 100000) AS score
FROM lost;
COMMENT ON VIEW serving.driving_score IS 'Points lost per 100 km by day of ODOGRAPH_TZ, days of at least 1 km; score is 100 less them; always filter on bucket';
GRANT SELECT ON serving.driving_score TO odograph_dashboard, odograph_ingest;
