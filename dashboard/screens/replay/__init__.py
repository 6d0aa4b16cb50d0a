"""The page Replay."""
