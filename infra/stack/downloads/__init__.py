"""What the set-up fetches, by pins and hashes, and the root file system that servers run in."""
