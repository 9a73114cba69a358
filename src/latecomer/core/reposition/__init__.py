"""Brokers that change their positions on the ring: what they agree on, and how they get ready for it."""
