"""Records of the past come into archive and windows through the batch layer: no live topic, no live query."""
