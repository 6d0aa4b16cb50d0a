"""Rules on trial: what a changed rule would have raised and lost over stored history."""
