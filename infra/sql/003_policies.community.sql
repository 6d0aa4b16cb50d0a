-- Only where TimescaleDB's community edition is at work: compression and roll-ups by its own means.

ALTER TABLE odograph.vehicle_window SET (
    timescaledb.compress, timescaledb.compress_segmentby = 'vehicle_id', timescaledb.compress_orderby = 'window_start DESC'
);
SELECT add_compression_policy('odograph.vehicle_window', INTERVAL '8 days');
SELECT add_retention_policy('odograph.query_progress', INTERVAL '30 days');
