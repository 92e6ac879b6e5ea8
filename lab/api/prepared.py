"""Preparing this process for trials once for many of them, inside a scope whose end undoes it.

The preparation takes some 70 ms of processor time, a trial 1 ms. Scopes may be nested; the outermost one
counts. The pytest plugin makes one around each test, so that the trials of a test share the preparation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_scopes = 0
_prepared = ExitStack()
_is_prepared = False


@contextmanager
def scope() -> Iterator[None]:
    """The end of the outermost scope undoes the preparation."""
    global _scopes, _is_prepared
    _scopes += 1
    try:
        yield
    finally:
        _scopes -= 1
        if not _scopes and _is_prepared:
            _is_prepared = False
            _prepared.close()


def prepare() -> None:
    """Make trials possible until the scope ends; does nothing if they are, or outside of any scope.

    Clocks and entropy are replaced by functions that answer as before, except to the code of a trial. The
    garbage collector stays enabled; the caller of a trial must disable it during the trial.
    """
    global _is_prepared
    if _is_prepared or not _scopes:
        return
    import gc

    import networkx  # noqa: F401 - before clocks are replaced, and not by the first violation

    from lab.search.runner import trials

    collects = gc.isenabled()
    _prepared.enter_context(trials())
    _is_prepared = True
    _warm_up()
    if collects:
        gc.enable()


def is_prepared() -> bool:
    """Whether ``prepare`` was called in a scope that has not ended."""
    return _is_prepared


@functools.cache
def _warm_up() -> None:
    """Run one trial with a violation, for imports and caches that happen at the first one."""
    from lab.faults.jump import Jump
    from lab.scenario.triggers import on
    from lab.search.faults import timed_fault
    from lab.search.runner import run_trial
    from lab.search.suspicion import named
    from lab.search.trial import Round, Trial

    half_ns, ttl_ns = 500_000_000, 1_000_000_000
    jumps = tuple(
        timed_fault(Jump, on("alice", "granted"), nodes=(node,), by_ns=2 * ttl_ns) for node in "ABC"
    )
    clients: dict[str, tuple[Round, ...]] = {
        "alice": (Round(0, half_ns),),
        "bob": (Round(half_ns // 2, half_ns),),
    }
    named(run_trial(Trial("redlock", clients, jumps, ttl_ns=ttl_ns, demand_ns=1)))
