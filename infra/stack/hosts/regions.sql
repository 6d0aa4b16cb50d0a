-- Statements of regions.py.

-- name: role
SELECT active, copies_to FROM odograph.region

-- name: found
-- What was noted while there was one region is its own.
WITH found AS (INSERT INTO odograph.region (active, copies_to) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING active),
     read AS (UPDATE odograph.consumer_offset SET region = active FROM found WHERE region = ''),
     seen AS (UPDATE odograph.partition_lag SET region = active FROM found WHERE region = ''),
     keys AS (UPDATE odograph.top_key SET region = active FROM found WHERE region = '')
UPDATE odograph.batch_ledger SET region = active FROM found WHERE region = ''

-- name: uncopied
SELECT region, topic, partition, from_offset, known_to, came_at IS NOT NULL FROM odograph.uncopied
WHERE noted_at = (SELECT since FROM odograph.region) ORDER BY topic, partition

-- name: lacks
INSERT INTO odograph.uncopied (region, topic, partition, from_offset, known_to) VALUES (%s, %s, %s, %s, %s)

-- name: act
UPDATE odograph.region SET active = %(region)s, since = now(), judged_to =
    (SELECT max(expires_at) - make_interval(secs => %(ttl_s)s) FROM odograph.lease
     WHERE name = 'instant' AND expires_at > '-infinity')
WHERE active <> %(region)s AND copies_to = %(region)s

-- name: hold
-- What is taking a lease for the first time has a row that only it sees.
LOCK TABLE odograph.lease IN SHARE ROW EXCLUSIVE MODE

-- name: fence
UPDATE odograph.lease SET expires_at = '-infinity' WHERE name <> 'mirror'

-- name: anew
-- Of what the queries begin to read here nothing is known to be complete.
DELETE FROM odograph.query_completeness

-- name: copies_to
UPDATE odograph.region SET copies_to = %s WHERE active <> %s

-- name: mirrors
SELECT 1 FROM odograph.lease WHERE name = 'mirror' AND expires_at > clock_timestamp()

-- name: ends
SELECT topic, partition, next_offset FROM odograph.consumer_offset WHERE region = odograph.acting_region()
UNION ALL SELECT topic, partition, log_end FROM odograph.partition_lag WHERE region = odograph.acting_region()

-- name: judged_to
SELECT (extract(epoch FROM judged_to) * 1000)::bigint FROM odograph.region WHERE judged_to IS NOT NULL
