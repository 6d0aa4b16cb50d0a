"""Windows of a vehicle rolled up to minutes, hours and days, exactly."""
