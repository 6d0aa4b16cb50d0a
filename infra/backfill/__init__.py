"""``odograph backfill``: where the simulator's drives and the stream's batch layer meet."""
