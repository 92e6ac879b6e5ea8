"""Imported by the server that forks a process per run: builds once what each of them would build again."""

from __future__ import annotations

import lab.batch.one_run
import lab.run.execution
import lab.scenario.load
import lab.substrates.local.cluster  # noqa: F401
from lab.report.page import build

build.preload()
