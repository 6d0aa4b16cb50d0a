-- A login of its own for each program that writes, with what it needs: contract/policy.py (LOGINS, MEMBERS, TABLES) says the same, and is
-- tried against this. What comes later is granted here's way: to odograph_ingest, and to each login whose program uses it.

GRANT USAGE ON SCHEMA odograph TO odograph_downlink, odograph_jobs, odograph_instant, odograph_events, odograph_maintenance,
    odograph_watch, odograph_mirror;
GRANT SELECT, INSERT, UPDATE ON odograph.lease TO odograph_downlink, odograph_jobs, odograph_instant, odograph_events, odograph_mirror;
GRANT SELECT ON odograph.region TO odograph_downlink, odograph_jobs, odograph_instant, odograph_events, odograph_mirror, odograph_watch;
GRANT EXECUTE ON FUNCTION odograph.take_lease TO odograph_downlink, odograph_jobs, odograph_instant, odograph_events, odograph_mirror;

GRANT SELECT, INSERT, DELETE ON odograph.webhook_settled TO odograph_downlink;
GRANT SELECT, UPDATE (came_at) ON odograph.uncopied TO odograph_mirror;

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.stage_sample, odograph.partition_lag, odograph.storage_sample, odograph.top_key
    TO odograph_watch;
GRANT SELECT ON odograph.batch_ledger, odograph.consumer_offset TO odograph_watch;
GRANT USAGE ON SCHEMA serving TO odograph_watch, odograph_maintenance;
GRANT SELECT ON serving.partition_skew, serving.top_key TO odograph_watch;

GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.alert, odograph.alert_change, odograph.alert_event, odograph.incident,
    odograph.incident_note, odograph.crash_part, odograph.crash_verdict, odograph.dead_letter, odograph.vehicle,
    odograph.consumer_offset TO odograph_events;
GRANT SELECT, INSERT, UPDATE ON odograph.rule TO odograph_events;
GRANT SELECT, INSERT ON odograph.crash_record TO odograph_events;
GRANT SELECT ON odograph.alert_silence, odograph.vehicle_latest, odograph.vehicle_window TO odograph_events;

-- Of what people do, of crash records, fleets and other programs' figures the stream jobs and maintenance have nothing.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA odograph TO odograph_jobs;
REVOKE ALL ON odograph.pseudonym, odograph.migration, odograph.replay_run, odograph.replay_verdict, odograph.view_backup,
    odograph.audit_log, odograph.custody, odograph.refusal_noted, odograph.crash_lock, odograph.log_begin, odograph.erased_window,
    odograph.uncopied, odograph.webhook_settled, odograph.crash_record, odograph.rule, odograph.crash_part, odograph.crash_verdict,
    odograph.incident, odograph.incident_note, odograph.alert_silence, odograph.stage_sample, odograph.partition_lag,
    odograph.storage_sample, odograph.top_key, odograph.driver_grant, odograph.fleet_vehicle, odograph.reinjection, odograph.truth
    FROM odograph_jobs;
REVOKE INSERT, UPDATE, DELETE ON odograph.region, odograph.fuel_factor, odograph.trend_metric, odograph.score_weight, odograph.retention
    FROM odograph_jobs;
REVOKE DELETE ON odograph.lease, odograph.query_completeness FROM odograph_jobs;
GRANT USAGE, CREATE ON SCHEMA user_sql TO odograph_jobs;

GRANT SELECT ON odograph.audit_log, odograph.custody, odograph.refusal_noted TO odograph_maintenance;
GRANT SELECT ON serving.dead_frame, serving.ledger, serving.session_loss TO odograph_maintenance;
GRANT EXECUTE ON FUNCTION odograph.expire, odograph.forget_listed, odograph.note_refusals TO odograph_maintenance;
