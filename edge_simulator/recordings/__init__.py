"""Recorded drives from CSV files, as any vehicle frames."""
