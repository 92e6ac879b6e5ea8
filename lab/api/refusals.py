"""Locks that what takes place in simulation cannot run."""

from __future__ import annotations

from lab.locks import refuse_without_sentinels

__all__ = ["refuse_without_sentinels"]
