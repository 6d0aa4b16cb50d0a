"""SQL of the columns that a type cannot guess, by table: keys, words, times; v and t as in month.py."""

from __future__ import annotations

from typing import Final

VEHICLE: Final = {
    "model": "(ARRAY['Corolla 1.8', 'Sprinter 316', 'Leaf 24 kWh', 'Actros 1845', 'Model 3'])[1 + v % 5]",
    "powertrain": "(ARRAY['petrol', 'diesel', 'electric', 'diesel', 'electric'])[1 + v % 5]",
    "vehicle_class": "(ARRAY['car', 'van', 'car', 'heavy', 'car'])[1 + v % 5]",
    "state": "'online'",
    "state_at": "now()",
    "boot_id": "1",
}
PLACE: Final = {"lat_deg": "48.10 + v % 97 * 0.0008", "lon_deg": "11.50 + v % 89 * 0.0012"}
BUCKET: Final = {"bucket": "t", "first_event": "t", "last_event": "t + INTERVAL '50 seconds'"}
WINDOW: Final = PLACE | {
    "window_start": "t",
    "window_s": "10",
    "first_event": "t",
    "last_event": "t + INTERVAL '9 seconds'",
    "revision": "0",
}
LATEST: Final = PLACE | {
    "event_time": "now() - CASE WHEN v % 20 > 17 THEN INTERVAL '1 hour' ELSE INTERVAL '1 second' END",
    "heading_deg": "v * 37 % 360",
    "speed_kmh": "CASE WHEN v % 10 < 4 THEN 20 + v % 60 ELSE 0 END",
    "ignition_on": "v % 10 < 5",
    "updated_at": "now()",
}
TRIP: Final = {
    "started_at": "t + v % 300 * INTERVAL '1 minute'",
    "ended_at": "t + v % 300 * INTERVAL '1 minute' + INTERVAL '40 minutes'",
    "trip_id": "v || '-' || extract(epoch FROM t)::bigint",
    "phase": "'final'",
    "start_h3_r7": "'871f8d7' || v % 10 || v % 7 || 'ffffff'",
    "end_h3_r7": "'871f8d7' || v % 9 || v % 5 || 'ffffff'",
    "start_lat_deg": PLACE["lat_deg"],
    "start_lon_deg": PLACE["lon_deg"],
    "end_lat_deg": PLACE["lat_deg"] + " + 0.01",
    "end_lon_deg": PLACE["lon_deg"] + " + 0.01",
    "distance_m": "4000 + v % 100 * 150",
    "duration_s": "2400",
    "revision": "0",
}
STOP: Final = PLACE | {
    "began_at": "t + v % 300 * INTERVAL '1 minute' + INTERVAL '40 minutes'",
    "ended_at": "t + v % 300 * INTERVAL '1 minute' + INTERVAL '12 hours'",
    "revision": "0",
}
HARSH: Final = PLACE | {
    "began_at": "t + v % 300 * INTERVAL '1 minute'",
    "ended_at": "t + v % 300 * INTERVAL '1 minute' + INTERVAL '1 second'",
    "kind": "(ARRAY['brake', 'accelerate', 'corner'])[1 + v % 3]",
    "revision": "0",
}
ALERT_AT: Final = "(SELECT now() - v % 720 * INTERVAL '1 hour' AS t) at"
ALERT: Final = PLACE | {
    "rule": "(ARRAY['coolant_high', 'speeding', 'tyre_low', 'battery_low'])[1 + v % 4]",
    "rule_version": "1",
    "severity": "(ARRAY['CRITICAL', 'MAJOR', 'MINOR', 'WARNING'])[1 + v % 4]",
    "message": "'63 km/h where 50 is allowed'",
    "opened_at": "t",
    "last_at": "t + INTERVAL '5 minutes'",
    "cleared_at": "CASE WHEN v % 25 > 0 THEN t + INTERVAL '6 minutes' END",
    "acknowledged_at": "CASE WHEN v % 3 > 0 THEN t + INTERVAL '7 minutes' END",
    "acknowledged_by": "CASE WHEN v % 3 > 0 THEN 'M. Weber' END",
    "late": "false",
    "first_alert_id": "'finding-' || v",
    "incident_no": "(SELECT incident_no FROM odograph.incident WHERE incident_id = 'finding-' || v)",
    "to_join": "false",
    "silence_no": "NULL",
    "revision": "0",
}
INCIDENT: Final = {"incident_id": ALERT["first_alert_id"], "cause": ALERT["rule"]}
FINDING: Final = PLACE | {
    "alert_id": "'finding-' || v",
    "rule": ALERT["rule"],
    "severity": ALERT["severity"],
    "event_time": "t",
    "received_at": "t + INTERVAL '1 second'",
    "alerted_at": "t + INTERVAL '1.01 seconds'",
    "stored_at": "t + INTERVAL '1.02 seconds'",
    "ended": "false",
}
TREND: Final = {"metric": "m", "as_of": "t"}
PROGRESS: Final = {
    "query": "(ARRAY['telemetry', 'archive'])[1 + v]",
    "at": "t",
    "query_id": "'00000000-0000-4000-8000-000000000000'",
    "watermark": "t - INTERVAL '61 seconds'",
    "event_time_max": "t",
    "input_rows": "4000",
    "rows_per_s": "4000",
    "dropped_late": "0",
}
PARTS: Final = (
    "ARRAY['mosquitto', 'bridge', 'kafka', 'jobs', 'instant', 'events', 'downlink', 'postgres', 'dashboard']"
)
SAMPLE: Final = {
    "stage": f"({PARTS})[1 + v]",
    "at": "t",
    "good_until": "t + INTERVAL '2 hours'",
    "ready": "true",
    "errors": "0",
    "saturation": "0.1",
    "reason": "NULL",
}
PARTITION: Final = {
    "reader": "(ARRAY['telemetry', 'archive'])[1 + v / 4]",
    "topic": "'telemetry'",
    "partition": "v % 4",
    "log_end": "1000000",
    "read_to": "999000 + v",
    "at": "now()",
    "good_until": "now() + INTERVAL '2 hours'",
}
STORAGE: Final = {"place": "'folder-' || v", "at": "t", "bytes": "1000000000", "free_bytes": "90000000000"}
LATE: Final = {
    "topic": "'telemetry'",
    "partition": "0",
    "log_offset": "extract(epoch FROM t)::bigint * 100 + v",
    "t0_ms": "(extract(epoch FROM t)::bigint - 40 - v) * 1000",
    "received_at": "t",
    "repaired_at": "t + INTERVAL '1 minute'",
    "verdict": "'clock_ahead'",
}
DEAD: Final = {
    "partition": "0",
    "log_offset": "extract(epoch FROM t)::bigint * 100 + v",
    "reason": "(ARRAY['bad_json', 'bad_value'])[1 + v % 2]",
    "received_at": "t",
    "digest": "v || '-' || t",
}
HOUR: Final = {"hour": "t", "closed_until": "t + INTERVAL '1 hour'", "residual": "0"}
