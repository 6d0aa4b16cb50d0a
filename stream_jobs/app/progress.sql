-- Statements of progress.py.

-- name: clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: note
INSERT INTO odograph.query_completeness AS c (query, complete_until)
SELECT query, to_timestamp(at_ms / 1000.0)
FROM unnest(%(queries)s::text[], %(moments)s::bigint[]) AS n (query, at_ms)
ON CONFLICT (query) DO UPDATE SET complete_until = greatest(excluded.complete_until,
    CASE WHEN c.complete_until <= clock_timestamp() THEN c.complete_until END)

-- name: complete
SELECT (extract(epoch FROM min(complete_until)) * 1000)::bigint FROM odograph.query_completeness
WHERE query = ANY(%(queries)s)
HAVING count(complete_until) = cardinality(%(queries)s::text[])
