"""The made-up country: streets, the network of roads with its routes, places to go to."""
