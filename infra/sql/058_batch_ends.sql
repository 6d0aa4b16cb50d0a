-- Where each batch ends in the log: compared with the checkpoint, so that no record is left out in silence.

ALTER TABLE odograph.batch_ledger ADD COLUMN ends jsonb;
COMMENT ON COLUMN odograph.batch_ledger.ends IS 'next offset by topic and partition; null: a line of an older version';
ALTER TABLE odograph.recompute_run DROP CONSTRAINT recompute_run_kind_check;
ALTER TABLE odograph.recompute_run ADD CONSTRAINT recompute_run_kind_check CHECK (kind IN ('command', 'nightly', 'gap'));
COMMENT ON COLUMN odograph.recompute_run.kind IS 'gap: ledger and checkpoint of the stream differed, and the time between them is made again';
