"""Imported by the server that forks a process per run: builds, once, what each of them would build anew."""

from __future__ import annotations

from lab.cli import app as cli
from lab.report.page import build

cli.command()
build.get_ready()
