"""The stream application: Spark's session, its queries, their sinks and progress."""
