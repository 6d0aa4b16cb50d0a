-- Statements of ledger.py.

-- name: due
SELECT DISTINCT hour_ms FROM (
    SELECT (extract(epoch FROM hour) * 1000)::bigint AS hour_ms FROM odograph.audit_hour
    WHERE closed_until < hour + INTERVAL '1 hour'
    UNION ALL
    SELECT t0_ms / 3600000 * 3600000 FROM odograph.late_frame
    WHERE received_at >= to_timestamp(%(since)s / 1000.0)
) due
WHERE hour_ms >= %(oldest)s AND hour_ms < %(until)s ORDER BY hour_ms

-- name: last
SELECT (extract(epoch FROM max(hour)) * 1000)::bigint FROM odograph.audit_hour

-- name: clear
DELETE FROM odograph.audit_hour WHERE hour = %(hour)s
