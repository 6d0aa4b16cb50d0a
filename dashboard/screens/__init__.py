"""The pages: widgets, query, chart."""
