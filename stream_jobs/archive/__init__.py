"""The master data set: its layout, its manifest, the one way to read it, and its upkeep. No Spark here."""
