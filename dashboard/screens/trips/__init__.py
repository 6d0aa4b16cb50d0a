"""The page Trips."""
