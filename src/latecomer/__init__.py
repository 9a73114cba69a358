"""Publish/subscribe for subscribers who arrive late, wander off and change their minds."""

__version__ = "0.1.0.dev0"
