"""Measures every part of the pipeline from outside, each few seconds, for the page Operations."""
