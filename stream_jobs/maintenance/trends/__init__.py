"""Where a vehicle's slow quantities are heading, out of its hours: robust slopes and days to a threshold."""
