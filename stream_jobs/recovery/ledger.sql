-- Statements of ledger.py.

-- name: claim
-- None claimed: this batch, or a later one of the same checkpoint, is in already.
WITH newest AS (SELECT batch_id, ends FROM odograph.batch_ledger WHERE query_id = %(query_id)s
                ORDER BY batch_id DESC LIMIT 1),
claimed AS (INSERT INTO odograph.batch_ledger (query_id, batch_id, query, rows, ends, log_generation)
            SELECT %(query_id)s, %(batch_id)s, %(query)s, %(rows)s, %(ends)s, %(log)s
            WHERE NOT EXISTS (SELECT 1 FROM newest WHERE batch_id >= %(batch_id)s)
            ON CONFLICT DO NOTHING RETURNING batch_id)
SELECT (SELECT count(*) FROM claimed), (SELECT batch_id FROM newest), (SELECT ends FROM newest)

-- name: newest
SELECT batch_id, ends FROM odograph.batch_ledger WHERE query_id = %(query_id)s ORDER BY batch_id DESC LIMIT 1

-- name: set_back
DELETE FROM odograph.batch_ledger WHERE query_id = %(query_id)s AND batch_id > %(batch_id)s

-- name: enter
INSERT INTO odograph.batch_ledger (query_id, batch_id, query, rows, ends)
VALUES (%(query_id)s, %(batch_id)s, %(query)s, 0, %(ends)s)
ON CONFLICT (query_id, batch_id) DO UPDATE SET ends = excluded.ends

-- name: forget_batches
DELETE FROM odograph.batch_ledger l USING
    (SELECT query_id, max(batch_id) AS newest FROM odograph.batch_ledger GROUP BY query_id) n
WHERE l.query_id = n.query_id AND l.batch_id < n.newest - 1000
