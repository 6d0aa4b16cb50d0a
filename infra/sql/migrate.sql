-- Statements of migrate.py.

-- name: ledger
CREATE SCHEMA IF NOT EXISTS odograph;
CREATE TABLE IF NOT EXISTS odograph.migration (
    name       text PRIMARY KEY,
    sha256     text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE odograph.migration IS 'SQL files applied to this database';
