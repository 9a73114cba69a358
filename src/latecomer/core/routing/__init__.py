"""Routing strategies: the union is the registry; settings, command line and docs come from it."""

from __future__ import annotations

from latecomer.core.routing.forwarding import Forwarding
from latecomer.core.routing.hierarchy import Hierarchy
from latecomer.core.routing.rendezvous import Rendezvous

Routing = Forwarding | Hierarchy | Rendezvous

__all__ = ["Forwarding", "Hierarchy", "Rendezvous", "Routing"]
