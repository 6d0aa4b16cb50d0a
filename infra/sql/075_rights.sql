-- What was applied is the owner's to note.

REVOKE ALL ON odograph.migration FROM odograph_ingest;
