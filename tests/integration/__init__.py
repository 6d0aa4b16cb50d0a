"""Tests on the real services. A package, so that the dashboard of conftest.py lives as long as they do."""
