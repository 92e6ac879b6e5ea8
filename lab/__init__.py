"""The lock lab: fault injection for distributed locks, on real processes.

``from lab import Lab`` is the lab as a library; see ``lab.api.lab``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.api.lab import Lab, LiveCluster, RunResult

__all__ = ["Lab", "LiveCluster", "RunResult"]


def __getattr__(name: str) -> Any:
    """Import what is in ``__all__`` when somebody asks for it: most of the lab's processes never do."""
    if name in __all__:
        from lab.api import lab as api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
