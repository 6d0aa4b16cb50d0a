"""Periodic tasks, supervised: what is derived from the tables, the ledger by hour, what may go."""
