-- Statements of overload.py.

-- name: lags
SELECT (extract(epoch FROM at) * 1000)::bigint, lag_records FROM odograph.query_progress
WHERE query = 'telemetry' AND at > now() - make_interval(secs => %(since_s)s) ORDER BY at

-- name: open
SELECT (extract(epoch FROM began_at) * 1000)::bigint, classes FROM odograph.overload WHERE ended_at IS NULL

-- name: last
SELECT (extract(epoch FROM began_at) * 1000)::bigint, (extract(epoch FROM ended_at) * 1000)::bigint, classes,
       lag_records
FROM odograph.overload ORDER BY began_at DESC LIMIT 1

-- name: begin
INSERT INTO odograph.overload (began_at, classes, lag_records)
VALUES (to_timestamp(%(at_ms)s / 1000.0), %(classes)s, %(lag)s)

-- name: end
UPDATE odograph.overload SET ended_at = to_timestamp(%(at_ms)s / 1000.0) WHERE ended_at IS NULL
