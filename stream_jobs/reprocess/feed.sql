-- Statements of feed.py. The first one is plain enough for DuckDB and Spark: what begins in times of a vehicle, and
-- records with a sample in windows {0} to {1}, received in {2} to {3} or late.

-- name: wanted
SELECT {what} FROM {records} r LEFT JOIN {times} w ON r.vehicle_id = w.vehicle_id
WHERE r.verdict IN ('ok', 'late') AND (
    r.t0_ms >= w.from_ms AND r.t0_ms < w.until_ms
    OR {whose} r.t0_ms < {1} AND r.t0_ms + r.span_ms >= {0}
       AND (r.verdict = 'late' OR r.received_ms BETWEEN {2} AND {3}))

-- name: counts
SELECT vehicle_id, sum(n)::bigint FROM found GROUP BY 1 ORDER BY 2, 1
