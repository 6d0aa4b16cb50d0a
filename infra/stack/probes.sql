-- Statements of probes.py.

-- name: timescaledb
SELECT default_version FROM pg_available_extensions WHERE name = 'timescaledb'

-- name: tls
SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl

-- name: failing_tasks
SELECT process, task, error, failures, date_trunc('second', failing_since AT TIME ZONE 'UTC')::text
FROM serving.maintenance_task WHERE failing_since IS NOT NULL ORDER BY failing_since

-- name: session_losses
SELECT at, detail FROM serving.session_loss WHERE at > now() - %s * INTERVAL '1 hour' ORDER BY at
