-- Statements of query_offsets.py.

-- name: newest
SELECT DISTINCT ON (query) query, batch_id, ends FROM odograph.batch_ledger
WHERE ends IS NOT NULL AND region = odograph.acting_region() ORDER BY query, committed_at DESC, batch_id DESC

-- name: lines
SELECT query_id::text, batch_id, ends FROM odograph.batch_ledger WHERE query_id = (
    SELECT query_id FROM odograph.batch_ledger WHERE query = %s AND region = odograph.acting_region()
    ORDER BY committed_at DESC LIMIT 1)
AND ends IS NOT NULL ORDER BY batch_id
