"""Sessions that move between brokers with their clients (`docs/protocol/hand-over.md`)."""
