-- Statements of work.py.

-- name: ever
SELECT count(*) FROM odograph.query_completeness WHERE query = ANY(%(queries)s)

-- name: last
SELECT coalesce(max(late_until), to_timestamp(0)), max(started_at) FROM odograph.recompute_run
WHERE kind = 'nightly' AND finished_at IS NOT NULL

-- name: unfinished
SELECT (extract(epoch FROM from_at) * 1000)::bigint, (extract(epoch FROM until_at) * 1000)::bigint, late_until
FROM odograph.recompute_run WHERE kind = 'nightly' AND finished_at IS NULL ORDER BY run_no DESC LIMIT 1

-- name: gaps
-- Not before the stream has taken in what it was to read when they were entered: it would write over them.
SELECT (extract(epoch FROM from_at) * 1000)::bigint, (extract(epoch FROM until_at) * 1000)::bigint
FROM odograph.recompute_run WHERE kind = 'gap' AND finished_at IS NULL
  AND until_at <= to_timestamp(%(closed_ms)s / 1000.0) AND started_at <= to_timestamp(%(seen_ms)s / 1000.0)
ORDER BY run_no
