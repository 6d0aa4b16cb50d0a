-- Statements of alerts.py.

-- name: findings
-- In the order of derive.Finding, boot and number not known, then of StoredFinding. Findings stored before there
-- was a column for the message (migration 020) have that of their alert.
SELECT e.alert_id, e.vehicle_id, e.rule, coalesce(e.rule_version, 0), e.severity,
       (extract(epoch FROM e.event_time) * 1000)::bigint, e.value, e.limit_value,
       coalesce(nullif(e.message, ''), (
           SELECT a.message FROM odograph.alert a WHERE a.vehicle_id = e.vehicle_id AND a.rule = e.rule
           AND e.event_time BETWEEN a.opened_at AND a.last_at ORDER BY a.opened_at LIMIT 1), e.rule),
       0, 0, (extract(epoch FROM e.received_at) * 1000)::bigint, e.lat_deg, e.lon_deg,
       (extract(epoch FROM e.since_at) * 1000)::bigint, e.ended, (extract(epoch FROM e.alerted_at) * 1000)::bigint,
       (extract(epoch FROM e.restated_at) * 1000)::bigint, e.withdrawn_at IS NOT NULL
FROM odograph.alert_event e
WHERE e.vehicle_id = %(vehicle)s AND split_part(e.rule, '.', 1) = ANY(%(rules)s)
  AND e.event_time BETWEEN to_timestamp(%(low_ms)s / 1000.0) AND to_timestamp(%(high_ms)s / 1000.0)
ORDER BY e.event_time

-- name: mark
UPDATE odograph.alert_event SET
    restated_at = CASE WHEN alert_id = ANY(%(added)s) THEN now() ELSE restated_at END,
    withdrawn_at = CASE WHEN alert_id = ANY(%(withdrawn)s) THEN now()
                        WHEN alert_id = ANY(%(revived)s) THEN NULL ELSE withdrawn_at END
WHERE alert_id = ANY(%(added)s::text[] || %(withdrawn)s::text[] || %(revived)s::text[])

-- name: times
SELECT (SELECT (extract(epoch FROM event_time) * 1000)::bigint
        FROM odograph.vehicle_latest WHERE vehicle_id = %(vehicle)s),
       (SELECT (extract(epoch FROM max(noted_at)) * 1000)::bigint
        FROM odograph.late_vehicle_frames WHERE vehicle_id = %(vehicle)s)

-- name: changed
UPDATE odograph.alert SET revision = revision + 1, restated_at = now(), withdrawn_at = NULL
WHERE alert_no = ANY(%(numbers)s)

-- name: withdrawn
UPDATE odograph.alert SET cleared_at = coalesce(cleared_at, last_at), withdrawn_at = now(),
    revision = revision + 1, restated_at = now()
WHERE alert_no = ANY(%(numbers)s)

-- name: alerts
SELECT {columns}, withdrawn_at IS NOT NULL, cleared_by IS NOT NULL
FROM odograph.alert
WHERE vehicle_id = %(vehicle)s AND rule = ANY(%(names)s)
  AND opened_at <= to_timestamp(%(high_ms)s / 1000.0) AND last_at >= to_timestamp(%(low_ms)s / 1000.0)
ORDER BY opened_at FOR UPDATE
