"""The location model of *dynatops*: people who check in, and what they and their friends subscribe to."""
