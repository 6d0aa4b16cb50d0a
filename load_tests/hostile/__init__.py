"""A million hostile messages and files against the running service: see README.md."""
