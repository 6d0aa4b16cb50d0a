-- Statements of leases.py.

-- name: take
SELECT taken, holds
FROM odograph.take_lease(%(name)s, %(holder)s, %(ttl_s)s, %(from_itself)s, %(region)s)

-- name: holder
-- Programs of a region that does not act have no lease: what they leave is nobody else's.
SELECT holder FROM odograph.lease WHERE name = %(name)s AND expires_at > clock_timestamp()
  AND NOT EXISTS (SELECT 1 FROM odograph.region WHERE %(region)s <> '' AND active <> %(region)s)

-- name: join
SELECT pg_advisory_lock_shared(hashtext('odograph lease ' || %(name)s))

-- name: check
SELECT 1 FROM odograph.lease
WHERE name = %(name)s AND epoch = %(epoch)s AND holder = %(holder)s AND expires_at > '-infinity'

-- name: renew
UPDATE odograph.lease SET expires_at = clock_timestamp() + %(ttl_s)s * INTERVAL '1 second'
WHERE name = %(name)s AND epoch = %(epoch)s AND holder = %(holder)s AND expires_at > '-infinity'
RETURNING 1

-- name: give_back
UPDATE odograph.lease SET expires_at = '-infinity'
WHERE name = %(name)s AND epoch = %(epoch)s AND holder = %(holder)s AND expires_at > '-infinity'
RETURNING 1
