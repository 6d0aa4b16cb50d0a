-- Statements of query_offsets.py.

-- name: newest
SELECT DISTINCT ON (query) query, batch_id, ends FROM odograph.batch_ledger
WHERE ends IS NOT NULL AND region = odograph.acting_region() ORDER BY query, committed_at DESC, batch_id DESC
