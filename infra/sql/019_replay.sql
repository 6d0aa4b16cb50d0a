-- Shadow runs that serving reads (infra/replay/): which, over what span, and what the views were before.

CREATE SCHEMA IF NOT EXISTS reading;
COMMENT ON SCHEMA reading IS 'Seams: a table of odograph with the rows of promoted runs in their place; there only while a run is promoted';

CREATE TABLE odograph.replay_run (
    run_id         text        PRIMARY KEY,
    run_no         integer     GENERATED ALWAYS AS IDENTITY,
    since          timestamptz NOT NULL,
    until          timestamptz NOT NULL CHECK (until > since),
    vehicles       text[],
    changed        text        NOT NULL,
    state          text        NOT NULL CHECK (state IN ('copied', 'promoted', 'rolled back')),
    copied_at      timestamptz NOT NULL DEFAULT now(),
    promoted_at    timestamptz,
    promoted_by    text,
    rolled_back_at timestamptz
);
COMMENT ON TABLE odograph.replay_run IS 'Shadow runs whose tables were copied into schema run_<run_id>: promoted ones are read by schema serving';
COMMENT ON COLUMN odograph.replay_run.vehicles IS 'the run''s vehicles; null: all';
COMMENT ON COLUMN odograph.replay_run.changed IS 'settings of the run that differ from those of the live jobs';

CREATE TABLE odograph.reading_before (
    kind     text NOT NULL CHECK (kind IN ('view', 'function')),
    name     text NOT NULL,
    before   text NOT NULL,
    promoted text NOT NULL,
    PRIMARY KEY (kind, name)
);
COMMENT ON TABLE odograph.reading_before IS 'What reads through seams now: the statement that makes it as it was before, and its text since';

CREATE VIEW serving.reading AS
SELECT run_id, since, until, vehicles, changed, promoted_at, promoted_by FROM odograph.replay_run WHERE state = 'promoted';
COMMENT ON VIEW serving.reading IS 'Promoted runs: within its span and for its vehicles the newest one is read; everything else is live';
GRANT SELECT ON serving.reading TO odograph_dashboard, odograph_ingest;
GRANT USAGE ON SCHEMA reading TO odograph_dashboard, odograph_ingest;
