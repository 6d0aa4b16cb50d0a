"""The page Vehicle."""
