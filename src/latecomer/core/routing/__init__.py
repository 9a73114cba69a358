"""Routing strategies: the union is the registry; settings, command line and docs come from it."""

from __future__ import annotations

from latecomer.core.routing.forwarding import Forwarding
from latecomer.core.routing.hierarchy import Hierarchy

Routing = Forwarding | Hierarchy

__all__ = ["Forwarding", "Hierarchy", "Routing"]
