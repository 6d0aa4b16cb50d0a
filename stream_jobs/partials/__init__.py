"""From payloads to partial windows, a batch of frames at a time: pure, Arrow and numpy, no Spark."""
