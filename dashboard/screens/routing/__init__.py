"""The page Routing."""
