"""What can go wrong with a cold tier."""

from __future__ import annotations

from latecomer.model.errors import LatecomerError


class ColdError(LatecomerError):
    """The tier cannot be written or read; the sentence names the place, and says what to do."""


class ColdDamage(ColdError):
    """A file, or some of it, is not what was written; everything else is served all the same."""
