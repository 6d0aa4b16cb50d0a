"""The dashboard: SQL views in, pages out."""
