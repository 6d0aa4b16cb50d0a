-- A late frame is repaired once stream and archive are past the moment at which it was listed, whatever comes late after it.

ALTER TABLE odograph.late_frame ADD COLUMN noted_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN odograph.late_frame.noted_at IS 'when it was listed; the log had it by then';
ALTER TABLE odograph.query_completeness DROP COLUMN late_noted_at;
