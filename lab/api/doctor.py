"""What can run on this machine: the installed tools and engines, what each allows, how to get the rest."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lab import tools
from lab.errors import ExitCode, LabError
from lab.faults.base import Fault, all_faults
from lab.shims import CLOCK_VARIABLE, ClockFile, preload
from lab.substrates.virtual import not_in_virtual_time
from lab.tools import Found, Missing, Progress
from lab.tools.shims import Compiler, compiler

if TYPE_CHECKING:
    from rich.console import Console

Status = Literal["ok", "missing", "old"]

SETUP = "lab setup"
IMAGES_BUILD = "lab images build"
_PRELOAD = "LD_PRELOAD"
_ENGINE = "docker engine"
_IMAGES = "docker images"
_LUA = "lupa"
_PROBE_TIMEOUT_S = 20.0
_PROBE_SHIFT_NS = 86_400 * 10**9

_LOCAL = ("redis-server", "toxiproxy-server")
_PRELOADED = "shims in redis-server"
_IN_VIRTUAL_TIME = "redis-server in virtual time"
_SHIMS = ("clock-shim", "sync-shim")
_VIRTUAL = ("vtime-shim", "conductor")
_VIRTUAL_RUNS = ("redis-server", *_VIRTUAL, _PRELOADED, _IN_VIRTUAL_TIME)

_ALLOWS = {
    "python": "the lab itself",
    "redis-server": "local runs: nodes and store",
    "toxiproxy-server": "local runs: every link",
    "cc": "building the shims (or a wheel's compiler)",
    "vtime-shim": "virtual runs: real processes in virtual time",
    "conductor": "virtual runs: the time itself",
    "names-shim": "Redis Sentinel on local and virtual, Redis Cluster on local",
    _PRELOAD: "the shims to act",
    _ENGINE: "docker runs",
    _IMAGES: "docker runs: nodes, links, clients",
    _LUA: "sim runs: the scripts of simulated nodes",
    **{name: f"local runs: the lock {name}" for name in tools.SERVICES},
}


@dataclass(frozen=True, slots=True)
class Row:
    """One item that the lab uses: its status, version and origin, what it allows, the `reason` if missing."""

    item: str
    status: Status
    version: str | None
    origin: str | None
    path: str | None
    allows: str
    reason: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Availability:
    """A substrate or a fault: whether it can be used now, and which items it lacks."""

    name: str
    available: bool
    lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All rows, and what follows from them. `failures` are the items that `setup` could not provide."""

    rows: tuple[Row, ...]
    substrates: tuple[Availability, ...]
    faults: tuple[Availability, ...]
    failures: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """EXPECTED (0) if local runs are possible, else UNKNOWN (3)."""
        local = next(substrate for substrate in self.substrates if substrate.name == "local")
        return ExitCode.EXPECTED if local.available else ExitCode.UNKNOWN

    @property
    def command(self) -> str | None:
        """The one command that provides what is missing, or None if it can provide nothing."""
        hints = {row.hint for row in self.rows}
        return " && ".join(command for command in (SETUP, IMAGES_BUILD) if command in hints) or None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: rows, substrates, faults, failures, command, exit_code."""
        return {**asdict(self), "command": self.command, "exit_code": int(self.exit_code)}


def diagnose(failures: tuple[str, ...] = ()) -> Diagnosis:
    """Inspect this machine, in about a second. Nothing is downloaded or built."""
    found = {name: tools.find(name) for name in tools.NAMES}
    rows = [Row("python", "ok", platform.python_version(), None, sys.executable, _ALLOWS["python"])]
    rows += [_tool_row(name, found[name], _ALLOWS[name]) for name in _LOCAL]
    rows += _server_rows(found["redis-server"])
    rows += _named_rows()
    rows.append(_compiler_row())
    for shim in _SHIMS:
        allows = ", ".join(fault.KEY for fault in all_faults() if shim in fault.TOOLS)
        rows.append(_tool_row(shim, found[shim], allows))
    rows += [_tool_row(name, found[name], _ALLOWS[name]) for name in ("names-shim", *_VIRTUAL)]
    rows += [_preload_row(found["clock-shim"]), *_engine_rows(), _lua_row()]
    rows += [_service_row(name, tools.find(name)) for name in tools.SERVICES]
    ok = {row.item for row in rows if row.status == "ok"}
    # What a server can be used for has a row only where it can't.
    ok |= {_PRELOADED, _IN_VIRTUAL_TIME} - {row.item for row in rows}

    def available(name: str, needs: tuple[str, ...]) -> Availability:
        lacks = tuple(need for need in needs if need not in ok)
        return Availability(name, not lacks, lacks)

    docker = available("docker", (_ENGINE, _IMAGES))
    substrates = (
        available("local", _LOCAL),
        docker,
        available("sim", (_LUA,)),
        available("virtual", _VIRTUAL_RUNS),
    )
    faults = tuple(available(fault.KEY, _LOCAL + _tools_of(fault)) for fault in all_faults())
    return Diagnosis(tuple(rows), substrates, faults, failures)


def _tools_of(fault: type[Fault]) -> tuple[str, ...]:
    return (*fault.TOOLS, _PRELOADED) if "sync-shim" in fault.TOOLS else fault.TOOLS


def setup(progress: Progress, servers: tuple[str, ...] = ()) -> Diagnosis:
    """Provide everything that local runs lack, or these servers, then diagnose.

    What could not be provided is in `failures`. Raises LabError only if the cache cannot be written, or there
    is no source of such a server.
    """
    failures: list[str] = []
    for server in servers:
        tools.find(server)  # is there one of that name?
    # Servers are tried under the preload libraries.
    for name in (*_SHIMS, *servers) if servers else tools.NAMES:
        try:
            found = tools.provide(name, progress)
        except LabError as failure:
            failures.append(failure.render())
        else:
            progress(f"{name} {found.version} ({found.origin})")
            if name in servers and found.static:
                progress(f"{found.no_preload}: no clock faults, no power cuts, no virtual time")
            elif name in servers and (reason := not_in_virtual_time(name)) is not None:
                progress(f"{reason}: not in virtual time")
    return diagnose(tuple(dict.fromkeys(failures)))


def render(diagnosis: Diagnosis, console: Console) -> None:
    """Print a diagnosis to `console`; colour adds no information."""
    from rich.table import Table
    from rich.text import Text

    styles = {"ok": "green", "missing": "red", "old": "yellow"}
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for heading in ("item", "status", "version", "from", "allows"):
        table.add_column(heading, overflow="fold")
    for row in diagnosis.rows:
        status = Text(row.status, style=styles[row.status])
        table.add_row(
            Text(row.item), status, Text(row.version or ""), Text(row.origin or ""), Text(row.allows)
        )
    console.print(table)
    console.print()
    for row in diagnosis.rows:
        if row.reason is not None:
            console.print(Text(f"- {row.reason}"))
    console.print()
    for substrate in diagnosis.substrates:
        console.print(Text(f"{substrate.name + ' runs:':<13}{_availability(substrate)}"))
    if usable := [fault.name for fault in diagnosis.faults if fault.available]:
        console.print(Text(f"{'faults:':<13}{', '.join(usable)}"))
    for lacks in dict.fromkeys(fault.lacks for fault in diagnosis.faults if not fault.available):
        names = ", ".join(fault.name for fault in diagnosis.faults if fault.lacks == lacks)
        console.print(Text(f"{'not usable:':<13}{names} (lacking: {', '.join(lacks)})"))
    for failure in diagnosis.failures:
        console.print(Text(f"\n{failure}"))
    if diagnosis.command is not None:
        console.print(Text(f"\nTo provide what is missing: {diagnosis.command}"))


def _availability(of: Availability) -> str:
    return "available" if of.available else f"not available (lacking: {', '.join(of.lacks)})"


def _tool_row(name: str, found: Found | Missing, allows: str) -> Row:
    if isinstance(found, Found):
        passed_over = found.passed_over or None
        return Row(name, "ok", found.version, found.origin, str(found.path), allows, passed_over)
    status: Status = "missing" if found.refused is None else "old"
    return Row(name, status, found.refused, None, None, allows, found.reason, found.hint)


def _server_rows(server: Found | Missing) -> list[Row]:
    """What the server that is found can't be used for, and why."""
    if isinstance(server, Missing):
        return []
    if server.static:
        allows = "clocks and power cuts of nodes, virtual runs"
        return [Row(_PRELOADED, "missing", None, None, str(server.path), allows, server.no_preload)]
    reason = not_in_virtual_time()
    if reason is None:
        return []
    return [Row(_IN_VIRTUAL_TIME, "missing", None, None, str(server.path), "virtual runs", reason)]


def _named_rows() -> list[Row]:
    """The servers that are here by name, and what each can't be used for."""
    rows = []
    for name in tools.SERVERS:
        found = tools.find(name)
        if isinstance(found, Missing):
            continue
        lacks = found.no_preload or not_in_virtual_time(name)
        allows = f"--server {name}" if lacks is None else f"--server {name}, not on virtual"
        if found.static:
            allows = f"--server {name} on local, without clock faults and power cuts"
        rows.append(Row(name, "ok", found.version, found.origin, str(found.path), allows, lacks))
    return rows


def _service_row(name: str, found: Found | Missing) -> Row:
    """The row of a server that `lab setup` does not provide: without a hint, since it is optional."""
    if isinstance(found, Found):
        return _tool_row(name, found, _ALLOWS[name])
    return Row(name, "missing", None, None, None, _ALLOWS[name], f"{found.reason}: {found.hint}")


def _compiler_row() -> Row:
    found = compiler()
    if isinstance(found, Compiler):
        return Row("cc", "ok", found.version, "PATH", found.command[0], _ALLOWS["cc"])
    # No hint: `lab setup` provides a compiler when it needs one.
    return Row("cc", "missing", None, None, None, _ALLOWS["cc"], found.reason)


def _preload_row(shim: Found | Missing) -> Row:
    """Start a child with its clock shifted by a day, and check the time that it shows."""
    if isinstance(shim, Missing):
        untried = "LD_PRELOAD cannot be tried without the clock shim"
        return Row(_PRELOAD, "missing", None, None, None, _ALLOWS[_PRELOAD], untried, shim.hint)
    reason: str | None = None
    try:
        with tempfile.TemporaryDirectory(prefix="lock-lab-") as directory:
            clock = ClockFile(Path(directory, "clock"))
            clock.create()
            clock.set(_PROBE_SHIFT_NS)
            child = subprocess.run(
                [sys.executable, "-ISc", "import time; print(time.time_ns())"],
                env={**os.environ, "LD_PRELOAD": preload(shim.path), CLOCK_VARIABLE: str(clock.path)},
                capture_output=True,
                timeout=_PROBE_TIMEOUT_S,
                text=True,
                check=True,
            )
            ahead_ns = int(child.stdout) - time.time_ns()
        if ahead_ns < _PROBE_SHIFT_NS // 2:
            reason = "LD_PRELOAD has no effect: a child process does not see the shifted clock"
    except (OSError, ValueError, subprocess.SubprocessError) as cause:
        reason = f"LD_PRELOAD: a child process with the clock shim failed: {cause}"
    status: Status = "ok" if reason is None else "missing"
    return Row(_PRELOAD, status, None, None, None, _ALLOWS[_PRELOAD], reason)


def _engine_rows() -> list[Row]:
    from lab.substrates.docker.engine import LOOK_TIMEOUT_S, connect, endpoint, no_engine_reason
    from lab.substrates.docker.images import (
        base_of,
        missing_reason,
        node_image,
        node_missing_reason,
        server_in_image,
    )

    reason = no_engine_reason()
    if reason is not None:
        return [Row(_ENGINE, "missing", None, None, None, _ALLOWS[_ENGINE], reason)]
    api = connect(LOOK_TIMEOUT_S)
    try:
        version = str(api.version().get("Version", "unknown"))
        lacking = missing_reason(api) or node_missing_reason(api)
        base, server = base_of(api, node_image()), server_in_image(api)
    finally:
        api.close()
    where = endpoint()
    rows = [Row(_ENGINE, "ok", version, where.origin, str(where.socket), _ALLOWS[_ENGINE])]
    nodes = f"{node_image()} on {base}" if base else None
    if lacking is None:
        return [*rows, Row(_IMAGES, "ok", server, nodes or node_image(), None, _ALLOWS[_IMAGES])]
    return [*rows, Row(_IMAGES, "missing", None, nodes, None, _ALLOWS[_IMAGES], lacking, IMAGES_BUILD)]


def _lua_row() -> Row:
    try:
        return Row(_LUA, "ok", version(_LUA), "Python package", None, _ALLOWS[_LUA])
    except PackageNotFoundError:
        reason = f"the Python package {_LUA} is not installed: simulated nodes can't run scripts"
        return Row(_LUA, "missing", None, None, None, _ALLOWS[_LUA], reason)
