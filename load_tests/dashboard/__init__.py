"""How fast the pages are over a large fleet: rows, readers, a browser, a report."""
