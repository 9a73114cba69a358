"""How the planner's loops are compiled.

What Python calls is a `kernel`: it lets other threads run, so that a progress line moves. What only kernels call is
`inner`: the way in from Python, which has to unpack every array of a search, takes as long to compile as the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Loop = TypeVar("_Loop", bound=Callable[..., Any])


def kernel(loop: _Loop) -> _Loop:
    """Python may call it."""
    return cast("_Loop", njit(cache=True, nogil=True)(loop))


def inner(loop: _Loop) -> _Loop:
    """Only kernels call it."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast("_Loop", njit(cache=True, **options)(loop))
