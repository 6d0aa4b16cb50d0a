"""One frame, hop by hop: ``odograph trace``."""
