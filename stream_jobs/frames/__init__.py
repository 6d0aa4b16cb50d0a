"""Frames, as every query and batch takes them: which values count, each frame once."""
