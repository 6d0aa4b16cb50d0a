-- Statements of ledger.py.

-- name: due
-- Hours not over when they were audited, those since the last one (the first time the newest two), those of late frames.
SELECT DISTINCT hour_ms FROM (
    SELECT (extract(epoch FROM hour) * 1000)::bigint AS hour_ms FROM odograph.audit_hour
    WHERE closed_until < hour + INTERVAL '1 hour'
    UNION ALL
    SELECT generate_series(
        coalesce((SELECT (extract(epoch FROM max(hour)) * 1000)::bigint FROM odograph.audit_hour),
                 %(newest)s - 3600000),
        %(newest)s, 3600000)
    UNION ALL
    SELECT t0_ms / 3600000 * 3600000 FROM odograph.late_frame
    WHERE received_at >= to_timestamp(%(since)s / 1000.0)
) due
WHERE hour_ms >= %(oldest)s AND hour_ms < %(until)s ORDER BY hour_ms

-- name: clear
DELETE FROM odograph.audit_hour WHERE hour = %(hour)s
