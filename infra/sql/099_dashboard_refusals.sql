-- What the dashboard refused is in the audit log, too.

ALTER TABLE odograph.refusal_noted DROP CONSTRAINT refusal_noted_service_check,
    ADD CONSTRAINT refusal_noted_service_check CHECK (service ~ '^(kafka|mosquitto|dashboard)');
COMMENT ON TABLE odograph.refusal_noted IS 'The last minute of a log of broker or dashboard whose refusals are in the audit log';
