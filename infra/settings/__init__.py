"""Settings: sections, where they come from, and the text forms of their values."""
