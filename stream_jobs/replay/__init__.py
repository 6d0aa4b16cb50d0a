"""Replay: a stored day through the same jobs again, compared with what is live, promoted or rolled back."""
