"""Rules that last: one detector a rule, pure; a vehicle's beats in, what was found out."""
