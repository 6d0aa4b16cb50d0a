"""Faults on purpose, with verdicts."""
