-- How long a text of a device may be, said once more by the tables (infra/contract/bounds.py): what gets past bridge and jobs ends here,
-- as an error of its own row. NOT VALID: rows that are there stay. Those that are updated later are cut first, their ends kept apart.

UPDATE odograph.alert SET vehicle_id = left(vehicle_id, 31) || md5(vehicle_id) WHERE char_length(vehicle_id) > 64;
UPDATE odograph.alert SET rule = left(rule, 95) || md5(rule) WHERE char_length(rule) > 128;
UPDATE odograph.alert SET message = left(message, 1000) WHERE char_length(message) > 1000;
UPDATE odograph.alert SET first_alert_id = left(first_alert_id, 95) || md5(first_alert_id) WHERE char_length(first_alert_id) > 128;
UPDATE odograph.late_frame SET vehicle_id = left(vehicle_id, 31) || md5(vehicle_id) WHERE char_length(vehicle_id) > 64;

ALTER TABLE odograph.vehicle DROP CONSTRAINT IF EXISTS bounded, ADD CONSTRAINT bounded CHECK (
    char_length(vehicle_id) <= 64 AND char_length(model) <= 64 AND char_length(powertrain) <= 64
    AND char_length(vehicle_class) <= 64 AND char_length(state) <= 64) NOT VALID;
ALTER TABLE odograph.alert DROP CONSTRAINT IF EXISTS bounded, ADD CONSTRAINT bounded CHECK (
    char_length(vehicle_id) <= 64 AND char_length(rule) <= 128 AND char_length(message) <= 1000
    AND char_length(first_alert_id) <= 128) NOT VALID;
ALTER TABLE odograph.alert_event DROP CONSTRAINT IF EXISTS bounded, ADD CONSTRAINT bounded CHECK (
    char_length(alert_id) <= 128 AND char_length(vehicle_id) <= 64 AND char_length(rule) <= 128
    AND char_length(message) <= 1000) NOT VALID;
ALTER TABLE odograph.crash_record DROP CONSTRAINT IF EXISTS bounded, ADD CONSTRAINT bounded CHECK (
    char_length(vehicle_id) <= 64 AND char_length(crash_id) <= 64 AND char_length(profile) <= 256
    AND octet_length(raw) <= 262144) NOT VALID;
ALTER TABLE odograph.crash_part DROP CONSTRAINT IF EXISTS bounded, ADD CONSTRAINT bounded CHECK (
    char_length(vehicle_id) <= 64 AND char_length(crash_id) <= 64 AND char_length(sha256) <= 64
    AND parts BETWEEN 1 AND 256 AND part BETWEEN 0 AND parts - 1
    AND char_length(mqtt_topic) <= 500 AND octet_length(message) <= 262144) NOT VALID;
ALTER TABLE odograph.dead_letter DROP CONSTRAINT IF EXISTS bounded, ADD CONSTRAINT bounded CHECK (
    char_length(reason) <= 500 AND char_length(detail) <= 500 AND char_length(mqtt_topic) <= 500
    AND char_length(vehicle_id) <= 500 AND char_length(digest) <= 128 AND bytes >= 0) NOT VALID;
ALTER TABLE odograph.late_frame DROP CONSTRAINT IF EXISTS bounded, ADD CONSTRAINT bounded CHECK (
    char_length(vehicle_id) <= 64 AND char_length(topic) <= 249) NOT VALID;
ALTER TABLE odograph.quarantined_frame DROP CONSTRAINT IF EXISTS bounded, ADD CONSTRAINT bounded CHECK (
    char_length(vehicle_id) <= 64 AND char_length(topic) <= 249) NOT VALID;
