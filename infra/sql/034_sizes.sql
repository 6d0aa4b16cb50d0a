-- Sizes count compressed chunks and the license's own aggregates; what is dropped by age is dropped from these too.

CREATE OR REPLACE VIEW serving.table_size AS
WITH timed AS (
    SELECT hypertable_schema AS schema, hypertable_name AS name, hypertable_schema AS store_schema, hypertable_name AS store
    FROM timescaledb_information.hypertables
    UNION ALL
    SELECT view_schema, view_name, materialization_hypertable_schema, materialization_hypertable_name
    FROM timescaledb_information.continuous_aggregates
), chunk AS (
    SELECT hypertable_schema AS store_schema, hypertable_name AS store, count(*)::integer AS chunks, min(range_start) AS since
    FROM timescaledb_information.chunks GROUP BY 1, 2
), sized AS (
    SELECT n.nspname AS schema, c.relname AS name, t.name IS NOT NULL AS in_chunks, chunk.chunks, chunk.since, c.oid, c.reltuples
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN timed t ON t.schema = n.nspname AND t.name = c.relname
    LEFT JOIN chunk USING (store_schema, store)
    WHERE t.name IS NOT NULL OR (n.nspname IN ('odograph', 'user_sql') AND c.relkind = 'r')
)
SELECT s.schema, s.name,
       CASE WHEN s.in_chunks THEN coalesce(hypertable_size(s.oid), 0) ELSE pg_total_relation_size(s.oid) END AS bytes,
       CASE WHEN s.in_chunks THEN approximate_row_count(s.oid) ELSE greatest(s.reltuples, 0)::bigint END AS about_rows,
       coalesce(s.chunks, 0) AS chunks, s.since, r.kept_days, r.dropped_before
FROM sized s
LEFT JOIN odograph.retention r ON s.schema = 'odograph' AND r.table_name = regexp_replace(s.name, '_continuous$', '');
COMMENT ON VIEW serving.table_size IS 'A row a table or continuous aggregate: bytes with indexes and compressed chunks, rows as last estimated (ANALYZE), chunks, begin of the oldest, how long it is kept';

CREATE OR REPLACE FUNCTION odograph.expire(wanted text, days integer) RETURNS integer LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    known odograph.retention;
    cutoff timestamptz := now() - make_interval(days => days);
    continuous regclass := to_regclass(format('odograph.%I', wanted || '_continuous'));
    gone integer;
    bound timestamptz;
BEGIN
    SELECT * INTO STRICT known FROM odograph.retention WHERE table_name = wanted;
    UPDATE odograph.retention SET kept_days = nullif(days, 0), looked_at = now() WHERE table_name = wanted;
    IF coalesce(days, 0) <= 0 OR EXISTS (
        SELECT FROM timescaledb_information.jobs
        WHERE proc_name = 'policy_retention' AND hypertable_schema = 'odograph' AND hypertable_name = wanted
    ) THEN
        RETURN 0;
    END IF;
    SELECT max(range_end) INTO bound FROM timescaledb_information.chunks
    WHERE hypertable_schema = 'odograph' AND hypertable_name = wanted AND range_end <= cutoff;
    SELECT count(*) INTO gone FROM drop_chunks(format('odograph.%I', wanted)::regclass, older_than => cutoff);
    IF continuous IS NOT NULL THEN
        PERFORM drop_chunks(continuous, older_than => cutoff);
    END IF;
    UPDATE odograph.retention SET dropped_before = greatest(dropped_before, bound) WHERE table_name = wanted;
    RETURN gone;
END $$;
COMMENT ON FUNCTION odograph.expire IS 'Drop the chunks of a table that end more than so many days ago, and those of its continuous aggregate; 0: none. Tables with a policy of the license are left to it. The number of chunks of the table';
