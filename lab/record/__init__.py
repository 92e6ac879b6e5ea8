"""Record what an application does with its lock: see ``lab.record.recorder``; standard library only."""

from __future__ import annotations

from lab.record.recorder import Grant, Recorder

__all__ = ["Grant", "Recorder"]
