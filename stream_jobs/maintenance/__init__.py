"""Keepers of the store itself: the conservation ledger by hour, and what may go."""
