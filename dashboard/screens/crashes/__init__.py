"""The page Crashes."""
