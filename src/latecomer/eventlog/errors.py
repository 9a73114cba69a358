"""What can go wrong with an event log."""

from __future__ import annotations

from latecomer.model.errors import LatecomerError


class EventLogError(LatecomerError):
    """The log cannot be written or read; the sentence names the file or directory, and says what to do."""


class EventLogFullError(EventLogError):
    """Writing has failed for so long that no further record is taken."""
