"""A plan on several servers: each scenario on each of them, and the table that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from lab.batch.item import Item, Plan
from lab.batch.result import Cell, Result
from lab.batch.tables import cell_text, first_line, legend, style_of, summary
from lab.errors import LabError
from lab.report.servers import NOT_APPLICABLE, SERVERS, UNEXPECTED, ServersTable
from lab.report.tables import grid, print_table
from lab.scenario.load import load_scenario
from lab.servers import Server
from lab.substrates import choose, substrate


def on_servers(plan: Plan, servers: Sequence[str]) -> Plan:
    """Each item of a plan on each of these servers; where there is none of that name, its item says why.

    Scenarios without nodes of Redis are left out.

    Raises:
        LabError: there is no server of such a name on any of the substrates.
    """
    places = dict.fromkeys(item.on for item in plan.items)
    why_not = {(server, on): _why_not(server, on) for server in servers for on in places}
    for server in servers:
        refused = [why_not[server, on] for on in places]
        if all(refused):
            raise next(error for error in refused if error is not None)
    items = tuple(
        _on(item, server, why_not[server, item.on])
        for item in plan.items
        if load_scenario(item.scenario, item.settings).scenario.cluster.service == "redis"
        for server in servers
    )
    return replace(plan, items=items, servers=tuple(servers), survey=True)


def _on(item: Item, server: str, why_not: LabError | None) -> Item:
    return replace(
        item,
        id=f"{item.id.removesuffix(f'/{item.on}')}/{server}/{item.on}",
        label=f"{item.label} {server}".strip(),
        settings=(*item.settings, f"cluster.server={server}"),
        own=True,
        why_not=item.why_not or (first_line(why_not.seen) if why_not is not None else ""),
    )


def _why_not(server: str, on: str) -> LabError | None:
    """Why a substrate cannot have such nodes."""
    try:
        chosen = substrate(choose(on, server=server)[0])
        chosen.servers(server)
        reason = chosen.lacks("redis", frozenset(), server)
    except LabError as error:
        return error
    return LabError(reason, where=f"--on {on} --server {server}") if reason else None


def servers_table(result: Result) -> ServersTable:
    """What came out on each server."""
    servers: dict[str, dict[str, str]] = {server: {} for server in result.plan.servers}
    cells: dict[str, dict[str, dict[str, str]]] = {}
    controls: dict[str, str] = {}
    reasons: dict[str, list[str]] = {}
    for cell in result.cells:
        item, server = cell.item, _server_of(cell.item)
        for row in cell.rows:
            if "server" in row.versions:
                servers[server][item.on] = Server.parse(row.versions["server"]).words
        cells.setdefault(item.name, {}).setdefault(server, {})[item.on] = _text(cell)
        if item.control_of:
            controls[item.control_of] = item.name
        why = _reason(cell)
        if why:
            reasons.setdefault(why, []).append(f"{item.name} ({server}, {item.on})")
    return ServersTable(result.plan.title, servers, cells, controls, reasons, legend())


def keep_servers(result: Result, out: Path) -> None:
    """Write the table into a directory. Raises ``OSError``."""
    out.mkdir(parents=True, exist_ok=True)
    form = msgspec.json.format(msgspec.json.encode(servers_table(result)), indent=1)
    (out / SERVERS).write_bytes(form + b"\n")


def print_servers(console: Console, result: Result) -> None:
    """Print the table, and what differs in it."""
    table = servers_table(result)
    drawn = grid(("scenario / its control", *table.servers))
    for scenario, *texts in table.rows():
        drawn.add_row(Text(scenario, "bold"), *map(Text, texts))
    print_table(console, drawn)
    console.print(table.legend, style="dim", markup=False)
    for head, lines in table.lists.items():
        for line in lines:
            console.print(f"{head}: {line}", style="yellow", markup=False, soft_wrap=True)
    console.print(Text(summary(result), style_of(result.exit_code)), soft_wrap=True)


def _server_of(item: Item) -> str:
    return item.settings[-1].partition("=")[2]


def _text(cell: Cell) -> str:
    if cell.state == "n/a":
        return NOT_APPLICABLE
    if cell.rows and cell.as_expected == len(cell.rows) and not cell.missing:
        return cell_text(cell)
    return f"{cell_text(cell)} {UNEXPECTED}"


def _reason(cell: Cell) -> str:
    """Why a cell is empty or not as expected; nothing if it is."""
    if cell.state == "n/a":
        return first_line(cell.reason)
    wrong = [reason for row in cell.rows if not row.as_expected for reason in row.reasons]
    return first_line(wrong[0]) if wrong else "not run" if cell.missing else ""
