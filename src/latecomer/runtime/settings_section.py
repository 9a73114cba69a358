"""What every table of the settings file is made of: the base of all sections, and the types of their values."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
"""Where 0 means: no limit."""
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=10**9)]
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Duration: TypeAlias = Annotated[str | float, msgspec.Meta(description='a duration as `"7d"`, or seconds')]
Size: TypeAlias = Annotated[str | float, msgspec.Meta(description='a size as `"20GB"`, or bytes')]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the settings file."""
