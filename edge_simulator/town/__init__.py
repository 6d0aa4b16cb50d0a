"""The made-up country: streets, the network of roads, ways through it, places to go to."""
