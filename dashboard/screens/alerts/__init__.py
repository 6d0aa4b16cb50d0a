"""The page Alerts."""
