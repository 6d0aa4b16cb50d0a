"""The conservation ledger in detail: by vehicle and stage, in ranges of sequence numbers."""
