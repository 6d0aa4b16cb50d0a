"""A vehicle against its like, of the same model, load and weather: a hot day alarms nobody."""
