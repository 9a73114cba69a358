"""Step 4 of planning §5.3: which of the stores keep a topic. One strategy per file, one ledger for all."""
