-- How far each streaming query has taken in the log, and how each periodic task does: for tasks that run beside the stream application.

CREATE TABLE odograph.query_completeness (
    query          text PRIMARY KEY,
    complete_until timestamptz,
    late_noted_at  timestamptz
);
COMMENT ON TABLE odograph.query_completeness IS 'Up to when each streaming query has taken in all that was in its topic; it stays true while the query does not run';
COMMENT ON COLUMN odograph.query_completeness.complete_until IS 'start of the last batch that reached the newest offsets, or moment at which the query found nothing to do';
COMMENT ON COLUMN odograph.query_completeness.late_noted_at IS 'when the query last listed late frames, set in the transaction that lists them';
GRANT SELECT, INSERT, UPDATE ON odograph.query_completeness TO odograph_ingest;

CREATE TABLE odograph.maintenance_task (
    process       text             NOT NULL,
    task          text             NOT NULL,
    interval_s    double precision NOT NULL,
    run_at        timestamptz,
    run_s         double precision,
    success_at    timestamptz,
    failures      integer          NOT NULL,
    failing_since timestamptz,
    error         text,
    PRIMARY KEY (process, task)
);
COMMENT ON TABLE odograph.maintenance_task IS 'Periodic tasks as their process last reported them: maintenance, jobs (those that need Spark)';
COMMENT ON COLUMN odograph.maintenance_task.run_at IS 'begin of the last run';
COMMENT ON COLUMN odograph.maintenance_task.run_s IS 'how long the last finished run took, s';
COMMENT ON COLUMN odograph.maintenance_task.failures IS 'runs that ended by an error since the process started';
COMMENT ON COLUMN odograph.maintenance_task.failing_since IS 'end of the first of the failed runs in a row; null: the last run succeeded, or none has ended yet';
COMMENT ON COLUMN odograph.maintenance_task.error IS 'of the last failed run; null: as failing_since';
GRANT SELECT, INSERT, UPDATE, DELETE ON odograph.maintenance_task TO odograph_ingest;

CREATE VIEW serving.maintenance_task AS
SELECT process, task, interval_s, run_at, run_s, success_at, failures, failing_since, error FROM odograph.maintenance_task;
COMMENT ON VIEW serving.maintenance_task IS 'Periodic tasks: last run and how long it took (s), last success, failures since the process started, error where the last run failed';
GRANT SELECT ON serving.maintenance_task TO odograph_dashboard, odograph_ingest;
