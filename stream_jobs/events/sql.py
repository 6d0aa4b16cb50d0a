"""The event store's statements. Rows go in as one JSON parameter; times are ms since 1970 on the way."""

from __future__ import annotations

from typing import Final

ENSURE_OFFSETS: Final = """
INSERT INTO odograph.consumer_offset (consumer, topic, partition, next_offset)
SELECT %(consumer)s, topic, partition, 0
FROM jsonb_to_recordset(%(rows)s) AS n(topic text, partition integer)
ON CONFLICT DO NOTHING
"""

OFFSETS: Final = """
SELECT topic, partition, next_offset FROM odograph.consumer_offset WHERE consumer = %(consumer)s
"""

MOVE_OFFSETS: Final = """
UPDATE odograph.consumer_offset o SET next_offset = n.next_offset
FROM jsonb_to_recordset(%(rows)s) AS n(topic text, partition integer, held bigint, next_offset bigint)
WHERE o.consumer = %(consumer)s AND o.topic = n.topic AND o.partition = n.partition AND o.next_offset = n.held
"""

INSERT_FINDINGS: Final = """
INSERT INTO odograph.alert_event (alert_id, vehicle_id, rule, severity, event_time, received_at,
    alerted_at, value, rule_version, limit_value, ended, message, lat_deg, lon_deg, since_at)
SELECT alert_id, vehicle_id, rule, severity, to_timestamp(event_ms / 1000.0),
    to_timestamp(received_ms / 1000.0),
       to_timestamp(alerted_ms / 1000.0), value, rule_version, "limit", ended, message, lat_deg, lon_deg,
       to_timestamp(since_ms / 1000.0)
FROM jsonb_to_recordset(%(rows)s) AS n(alert_id text, vehicle_id text, rule text, severity text,
    event_ms bigint,
     received_ms bigint, alerted_ms bigint, value double precision, rule_version integer,
     "limit" double precision, ended boolean, message text, lat_deg double precision,
     lon_deg double precision, since_ms bigint)
ON CONFLICT DO NOTHING
RETURNING alert_id
"""

ALERT_COLUMNS: Final = """
alert_no, vehicle_id, rule, rule_version, severity, message,
(extract(epoch FROM opened_at) * 1000)::bigint AS opened_ms,
(extract(epoch FROM last_at) * 1000)::bigint AS last_ms,
(extract(epoch FROM cleared_at) * 1000)::bigint AS cleared_ms,
value, worst_value, limit_value AS limit, findings, late, lat_deg, lon_deg, first_alert_id,
(extract(epoch FROM since_at) * 1000)::bigint AS since_ms"""
"""In the order of alerts.Alert."""
KNOWN_ALERTS: Final = f"""
SELECT {ALERT_COLUMNS}
FROM odograph.alert a
JOIN jsonb_to_recordset(%(rows)s) AS k(vehicle_id text, rule text, from_ms bigint, to_ms bigint)
     USING (vehicle_id, rule)
WHERE a.withdrawn_at IS NULL AND (a.cleared_at IS NULL
   OR (a.last_at >= to_timestamp(k.from_ms / 1000.0) AND a.opened_at <= to_timestamp(k.to_ms / 1000.0)))
FOR UPDATE OF a
"""  # noqa: S608  a constant of this file

_ALERT_ROW: Final = """
jsonb_to_recordset(%(rows)s) AS n(alert_no bigint, vehicle_id text, rule text, rule_version integer,
    severity text,
    message text, opened_ms bigint, last_ms bigint, cleared_ms bigint, value double precision,
    worst_value double precision, "limit" double precision, findings integer, late boolean,
    lat_deg double precision, lon_deg double precision, first_alert_id text, since_ms bigint)
"""

UPDATE_ALERTS: Final = f"""
UPDATE odograph.alert a
SET rule_version = n.rule_version, severity = n.severity, message = n.message,
    opened_at = to_timestamp(n.opened_ms / 1000.0), last_at = to_timestamp(n.last_ms / 1000.0),
    cleared_at = to_timestamp(n.cleared_ms / 1000.0), value = n.value, worst_value = n.worst_value,
    limit_value = n."limit", findings = n.findings, late = n.late, lat_deg = n.lat_deg, lon_deg = n.lon_deg,
    since_at = to_timestamp(n.since_ms / 1000.0)
FROM {_ALERT_ROW}
WHERE a.alert_no = n.alert_no
"""  # noqa: S608  a constant of this file

INSERT_ALERTS: Final = f"""
INSERT INTO odograph.alert (vehicle_id, rule, rule_version, severity, message, opened_at, last_at,
    cleared_at, value,
    worst_value, limit_value, findings, late, lat_deg, lon_deg, first_alert_id, since_at)
SELECT vehicle_id, rule, rule_version, severity, message, to_timestamp(opened_ms / 1000.0),
       to_timestamp(last_ms / 1000.0), to_timestamp(cleared_ms / 1000.0), value, worst_value, "limit",
       findings,
       late, lat_deg, lon_deg, first_alert_id, to_timestamp(since_ms / 1000.0)
FROM {_ALERT_ROW}
"""  # noqa: S608  a constant of this file

CLEAR_ALERTS: Final = """
UPDATE odograph.alert a SET cleared_at = a.last_at + reach.clear_for
FROM (
    SELECT b.alert_no, make_interval(secs => coalesce(
        (%(clear_for_s)s::jsonb ->> split_part(b.rule, '.', 1))::double precision,
        %(default_s)s)) AS clear_for
    FROM odograph.alert b WHERE b.cleared_at IS NULL AND NOT split_part(b.rule, '.', 1) = ANY(%(kept)s)
) reach, odograph.vehicle_latest l
WHERE a.alert_no = reach.alert_no AND a.cleared_at IS NULL AND l.vehicle_id = a.vehicle_id
  AND l.event_time > a.last_at + reach.clear_for
"""

MARK_SILENCED: Final = """
UPDATE odograph.alert a SET silence_no = s.silence_no
FROM (SELECT DISTINCT ON (b.alert_no) b.alert_no, t.silence_no
      FROM odograph.alert b
      JOIN odograph.alert_silence t ON now() >= t.from_at AND now() < t.until_at
       AND (t.vehicle_id IS NULL OR t.vehicle_id = b.vehicle_id)
       AND (t.rule IS NULL OR t.rule IN (b.rule, split_part(b.rule, '.', 1)))
      WHERE b.cleared_at IS NULL AND b.silence_no IS NULL
      ORDER BY b.alert_no, t.until_at DESC) s
WHERE a.alert_no = s.alert_no
"""

INSERT_CRASHES: Final = """
INSERT INTO odograph.crash_record (vehicle_id, boot_id, crash_id, event_time, received_at, profile,
    delta_v_max_kmh,
    airbag_deployed, complete, hash_ok, lat_deg, lon_deg, record, raw, defects)
SELECT vehicle_id, boot_id, crash_id, to_timestamp(event_ms / 1000.0), to_timestamp(received_ms / 1000.0),
    profile,
       delta_v_max_kmh, airbag_deployed, complete, hash_ok, lat_deg, lon_deg, record, raw, defects
FROM jsonb_to_recordset(%(rows)s) AS n(vehicle_id text, boot_id bigint, crash_id text, event_ms bigint,
     received_ms bigint, profile text, delta_v_max_kmh double precision, airbag_deployed boolean,
     complete boolean,
     hash_ok boolean, lat_deg double precision, lon_deg double precision, record jsonb,
     raw text, defects jsonb)
ON CONFLICT DO NOTHING
"""

_PART_KEY: Final = "vehicle_id text, boot_id bigint, crash_id text, sha256 text, parts integer"
_PART_SET: Final = """
vehicle_id = %(vehicle_id)s AND boot_id = %(boot_id)s AND crash_id = %(crash_id)s AND sha256 = %(sha256)s
    AND parts = %(parts)s
"""

INSERT_PARTS: Final = f"""
INSERT INTO odograph.crash_part (vehicle_id, boot_id, crash_id, sha256, parts, part, event_time, received_at,
    mqtt_topic, message)
SELECT vehicle_id, boot_id, crash_id, sha256, parts, part, to_timestamp(event_ms / 1000.0),
    to_timestamp(received_ms / 1000.0), mqtt_topic, message
FROM jsonb_to_recordset(%(rows)s) AS n({_PART_KEY}, part integer, event_ms bigint, received_ms bigint,
    mqtt_topic text, message text)
ON CONFLICT DO NOTHING
"""  # noqa: S608  a constant of this file

WHOLE_SETS: Final = f"""
SELECT vehicle_id, boot_id, crash_id, sha256, parts, part, mqtt_topic, message,
       (extract(epoch FROM received_at) * 1000)::bigint AS received_ms
FROM (SELECT p.*, count(message) OVER (PARTITION BY vehicle_id, boot_id, crash_id, sha256, parts) AS there
      FROM odograph.crash_part p
      JOIN (SELECT DISTINCT * FROM jsonb_to_recordset(%(rows)s) AS n({_PART_KEY})) k
           USING (vehicle_id, boot_id, crash_id, sha256, parts)) q
WHERE there = parts
ORDER BY vehicle_id, boot_id, crash_id, sha256, parts, part
"""  # noqa: S608  a constant of this file

ASSEMBLED_PARTS: Final = f"UPDATE odograph.crash_part SET message = NULL WHERE {_PART_SET}"  # noqa: S608
DROP_PARTS: Final = f"DELETE FROM odograph.crash_part WHERE {_PART_SET}"  # noqa: S608

UPSERT_VEHICLES: Final = """
INSERT INTO odograph.vehicle AS v (vehicle_id, model, powertrain, vehicle_class, state, state_at, boot_id)
SELECT vehicle_id, model, powertrain, vehicle_class, state, to_timestamp(state_ms / 1000.0), boot_id
FROM jsonb_to_recordset(%(rows)s) AS n(vehicle_id text, model text, powertrain text, vehicle_class text,
    state text,
     state_ms bigint, boot_id bigint)
ON CONFLICT (vehicle_id) DO UPDATE
SET model = coalesce(excluded.model, v.model), powertrain = coalesce(excluded.powertrain, v.powertrain),
    vehicle_class = coalesce(excluded.vehicle_class, v.vehicle_class), state = excluded.state,
    state_at = excluded.state_at, boot_id = excluded.boot_id
WHERE excluded.state_at >= v.state_at
"""

INSERT_DEAD_LETTERS: Final = """
INSERT INTO odograph.dead_letter (partition, log_offset, reason, detail, mqtt_topic, vehicle_id,
    received_at, bytes,
    digest, boot_id, seq, messages, since_at)
SELECT partition, log_offset, reason, detail, mqtt_topic, vehicle_id, to_timestamp(received_ms / 1000.0),
    bytes, digest, boot_id, seq, messages, to_timestamp(since_ms / 1000.0)
FROM jsonb_to_recordset(%(rows)s) AS n(partition integer, log_offset bigint, reason text, detail text,
    mqtt_topic text,
     vehicle_id text, received_ms bigint, bytes integer, digest text, boot_id bigint, seq bigint,
     messages integer, since_ms bigint)
ON CONFLICT DO NOTHING
"""
