"""The table scenarios × servers: what came out on each version, on each substrate, and where that differs.

It is read from the form that ``lab suite --server … --server … --keep`` writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from lab.errors import LabError
from lab.report.tables import markdown_table
from lab.servers import SERVERS_OF_REDIS, Server

SERVERS: Final = "servers.json"
NAME: Final = "servers"
"""How the directories of the gallery begin that have one."""
NOT_APPLICABLE: Final = "n/a"
NOT_RUN: Final = "·"
UNEXPECTED: Final = "✗"
"""Behind what is not as the scenario expects it on that server."""
BEGIN: Final = "<!-- The table of servers, written by `lab.report.docs` from reports/gallery/servers. -->"
END: Final = "<!-- The end of the table of servers. -->"


class ServersTable(msgspec.Struct, frozen=True):
    """What came out.

    Args:
        title: of the suite.
        servers: by the name that was asked for and the substrate: product and version, for people.
        cells: by scenario, server and substrate: what was violated, in letters.
        controls: by scenario, its control.
        reasons: why cells are ``n/a`` or not as expected, with their places.
        legend: what the letters mean.
    """

    title: str
    servers: dict[str, dict[str, str]]
    cells: dict[str, dict[str, dict[str, str]]]
    controls: dict[str, str]
    reasons: dict[str, list[str]]
    legend: str

    def shown(self, scenario: str, server: str) -> str:
        """One cell: what came out, or what came out on each substrate if that differs."""
        found = self.cells[scenario].get(server, {})
        known = {on: text for on, text in found.items() if text != NOT_APPLICABLE}
        if not known:
            return NOT_APPLICABLE if found else NOT_RUN
        if len(set(known.values())) == 1:
            return next(iter(known.values()))
        return ", ".join(f"{on} {text}" for on, text in known.items())

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The lines of the table: a scenario, and behind the slash its control."""
        controls = set(self.controls.values())
        for scenario in (name for name in self.cells if name not in controls):
            control = self.controls.get(scenario, "")
            row = []
            for server in self.servers:
                texts = [self.shown(name, server) for name in (scenario, control) if name in self.cells]
                row.append(NOT_RUN if set(texts) == {NOT_RUN} else " / ".join(texts))
            yield (scenario, *row)

    @property
    def disagreements(self) -> list[str]:
        """The cells in which substrates with the same server came to different results."""
        return [
            f"{scenario}, {server}: {self.shown(scenario, server)}"
            for scenario, by_server in self.cells.items()
            for server, found in by_server.items()
            if len({text for text in found.values() if text != NOT_APPLICABLE}) > 1
        ]

    @property
    def differing(self) -> list[str]:
        """The scenarios that do not come out alike on all servers."""
        return [
            scenario
            for scenario, by_server in self.cells.items()
            if len({self.shown(scenario, server) for server in by_server} - {NOT_APPLICABLE, NOT_RUN}) > 1
        ]

    @property
    def counts(self) -> str:
        """How many runs of how many scenarios it is of, in words."""
        texts = [text for row in self.cells.values() for found in row.values() for text in found.values()]
        known = [text for text in texts if text != NOT_APPLICABLE]
        wrong = sum(text.endswith(UNEXPECTED) for text in known)
        agreed = len(self.disagreements)
        return (
            f"{len(self.cells)} scenarios and controls, {len(self.servers)} servers: {len(known)} runs, "
            f"{len(known) - wrong} as expected; in {agreed} cells substrates with the same server differ"
        )

    def markdown(self) -> str:
        """The table, the servers, and what is empty or differs."""
        substrates = dict.fromkeys(on for found in self.servers.values() for on in found)
        versions = markdown_table(
            ("server", *substrates),
            (
                (name, *(found.get(on, NOT_APPLICABLE) for on in substrates))
                for name, found in self.servers.items()
            ),
        )
        parts = [f"{self.counts}.", versions.rstrip("\n")]
        parts.append(markdown_table(("scenario / its control", *self.servers), self.rows()).rstrip("\n"))
        parts.append(self.legend)
        for head, lines in self.lists.items():
            if lines:
                parts.append("\n".join([f"{head}:", "", *(f"- {line}" for line in lines)]))
        return "\n\n".join(parts) + "\n"

    @property
    def lists(self) -> dict[str, list[str]]:
        """What differs, and what is empty, each with its head."""
        return {
            "Not alike on all servers": self.differing,
            "Not alike on all substrates": self.disagreements,
            "Empty, or not as expected": [
                f"{_places(places)}: {reason}" for reason, places in self.reasons.items()
            ],
        }


def _places(places: list[str]) -> str:
    """Where, in few words."""
    return ", ".join(places) if len(places) <= 6 else f"{', '.join(places[:5])} and {len(places) - 5} more"


def read_servers(directory: Path) -> ServersTable:
    """Read what was kept. Raises ``LabError``: there is nothing, or it is damaged."""
    path = directory / SERVERS
    try:
        return msgspec.json.decode(path.read_bytes(), type=ServersTable)
    except (OSError, msgspec.DecodeError) as error:
        raise LabError(
            f"the table of servers cannot be read: {error}",
            where=str(path),
            hint="lab suite --server A --server B --keep writes one",
        ) from error


def merged(tables: list[ServersTable]) -> ServersTable:
    """Several tables as one; they are of other scenarios, servers or substrates. Raises ``LabError``."""
    first = tables[0]
    servers: dict[str, dict[str, str]] = {}
    cells: dict[str, dict[str, dict[str, str]]] = {}
    controls: dict[str, str] = {}
    reasons: dict[str, list[str]] = {}
    for table in tables:
        for name, found in table.servers.items():
            servers.setdefault(name, {}).update(found)
        for scenario, row in table.cells.items():
            for server, by_substrate in row.items():
                cells.setdefault(scenario, {}).setdefault(server, {}).update(by_substrate)
        controls |= table.controls
        for reason, places in table.reasons.items():
            reasons.setdefault(reason, []).extend(places)
    in_order = {name: servers[name] for name in sorted(servers, key=_age)}
    return ServersTable(first.title, in_order, dict(sorted(cells.items())), controls, reasons, first.legend)


def _age(server: str) -> tuple[int, tuple[int, ...], str]:
    """By product, and the oldest first; what is no product and version comes by its name."""
    try:
        found = Server.parse(server)
    except ValueError:
        return len(SERVERS_OF_REDIS), (), server
    return SERVERS_OF_REDIS.index(found.product), found.number, server


def servers_kept(gallery: Path) -> ServersTable | None:
    """What the gallery keeps, None if there is no such table. Raises ``LabError``: it is damaged."""
    found = sorted(gallery.glob(f"{NAME}*/{SERVERS}"))
    return merged([read_servers(path.parent) for path in found]) if found else None


def with_servers(text: str, gallery: Path) -> str:
    """A text with the table between its two marks; unchanged if it has no marks, or there is no table.

    Raises:
        LabError: the table is damaged.
    """
    table = servers_kept(gallery)
    if BEGIN not in text or END not in text or table is None:
        return text
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table.markdown()}\n{END}{after}"
