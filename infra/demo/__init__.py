"""The whole in the foreground, and the question whether everything is accounted for."""
