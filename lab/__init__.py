"""The lock lab: fault injection for distributed locks, on real processes.

``from lab import Lab`` is the lab as a library; see ``lab.api.lab``. ``from lab import strategies`` is for
users of Hypothesis; see ``lab.api.strategies``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.api import strategies
    from lab.api.lab import Lab, LiveCluster, RunResult

__all__ = ["Lab", "LiveCluster", "RunResult", "strategies"]


def __getattr__(name: str) -> Any:
    """Import a name of ``__all__`` at its first use: most processes of the lab need none of them."""
    if name == "strategies":
        from importlib import import_module

        return import_module("lab.api.strategies")
    if name in __all__:
        from lab.api import lab as api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
