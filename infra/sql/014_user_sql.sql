-- SQL on the stream: the tables of users' queries, made by the stream application when it first starts one.

CREATE SCHEMA user_sql;
COMMENT ON SCHEMA user_sql IS 'A table a file of ODOGRAPH_JOBS_SQL_DIR, kept up to date by the stream (stream_jobs/user_sql/)';
GRANT USAGE, CREATE ON SCHEMA user_sql TO odograph_ingest;
GRANT USAGE ON SCHEMA user_sql TO odograph_dashboard;
