"""Load on the whole chain, open loop, and the card that says what it carried: ``odograph bench``."""
