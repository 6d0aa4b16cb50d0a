-- Statements of truth.py.

-- name: incoming
CREATE TEMP TABLE incoming (
    line integer, truth_id text, kind text, what text, vehicle_id text, from_time timestamptz,
    full_time timestamptz, to_time timestamptz, severity double precision, details jsonb
) ON COMMIT DROP

-- name: take_in
INSERT INTO odograph.truth
    (run_id, truth_id, kind, what, vehicle_id, from_time, full_time, to_time, severity, details)
SELECT DISTINCT ON (truth_id)
    %s, truth_id, kind, what, vehicle_id, from_time, full_time, to_time, severity, details
FROM incoming ORDER BY truth_id, line DESC
ON CONFLICT (run_id, truth_id) DO UPDATE SET
    vehicle_id = excluded.vehicle_id, from_time = excluded.from_time, full_time = excluded.full_time,
    to_time = excluded.to_time, severity = excluded.severity, details = excluded.details

-- name: counts
SELECT run_id, kind, what, count(*) AS count, min(from_time) AS first,
       max(coalesce(to_time, from_time)) AS last
FROM serving.truth WHERE %s::text IS NULL OR run_id = %s GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT 1000
