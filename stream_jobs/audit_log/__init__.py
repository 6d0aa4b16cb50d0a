"""The log of what people did, held against what lies outside of the database."""
