"""Clients that are sent to other brokers: where these are, which of them suits a client, and who may be sent."""
