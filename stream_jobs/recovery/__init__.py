"""What a start goes on from: checkpoints, the ledger of batches, files by URL, state cut anew."""
