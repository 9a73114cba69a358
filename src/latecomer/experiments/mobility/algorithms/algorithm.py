"""What an algorithm decides about a move; the walk (`move`) asks, and is the same for all of them.

A new algorithm is a file beside this one, with a frozen struct that answers otherwise, and a line in `registry`.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Algorithm(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of the standard algorithm, which the others change one at a time."""

    on_device: bool = False
    """The client brings its subscriptions, so that the old broker need not send them (§3.2.4)."""

    def departure(self, guesses: tuple[int, ...]) -> tuple[int, ...]:
        """The client has left: the brokers to which its session goes at once. One of them becomes the owner; with
        several the old broker stays the owner until the client comes."""
        return ()

    def arrival(self) -> Literal["fetch", "attach"]:
        """The client has come to another broker: fetch its session, or serve it from where the session is."""
        return "fetch"

    def outline(self) -> bool:
        """Whether the new broker is first told which events there are, and asks for those that it does not have."""
        return False
