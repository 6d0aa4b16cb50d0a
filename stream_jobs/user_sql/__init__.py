"""SQL on the stream: a user's Spark SQL over frames or samples, kept up to date in a table of its own."""
