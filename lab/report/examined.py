"""What `lab test` came to for each library, as it was kept: which were without a defect, and what all took.

``python -m tests.local.known_defects --keep`` writes ``docs/analyses/examined.yaml``, library by library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from lab.drivers.registry import rows
from lab.errors import LabError
from lab.report.tables import markdown_table

KEPT: Final = "examined.yaml"
PAGE: Final = "examined.md"
HEAD: Final = "# Written by `python -m tests.local.known_defects --keep`, read by lab/report/examined.py.\n"


class Tried(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of an examination: how many schedules of how many; 0: nobody counted them."""

    part: str
    schedules: int
    of: int


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The examination of one library, from the name of its driver alone.

    ``found`` and ``missed`` are scenarios of known defects, ``causes`` those of all defects, ``unconfirmed``
    those of defects that are no known ones, each with why no scenario shows it on real Redis ("": nobody has
    looked; None: nobody noted them). ``undecided``: how many things were seen that are not certain to be
    defects. ``stopped``: it ended when all known defects were found. ``real_s`` and ``cpu_s`` are of the lab
    with its drivers, ``load`` that of the machine.
    """

    version: str
    servers: str
    seed: int
    budget: str
    schedules: int
    real_s: int
    cpu_s: int
    load: float
    stopped: bool
    causes: tuple[str, ...]
    found: tuple[str, ...]
    missed: tuple[str, ...]
    undecided: int
    tried: tuple[Tried, ...]
    server: str = ""
    """What was asked for with ``--server``."""
    unconfirmed: dict[str, str] | None = None


def read_kept(directory: Path) -> dict[str, Kept]:
    """What is kept, by driver; nothing if there is no such file. Raises ``LabError``: it is damaged."""
    path = directory / KEPT
    if not path.is_file():
        return {}
    try:
        found = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Kept])
    except msgspec.MsgspecError as error:
        raise LabError(f"the kept examinations cannot be read: {error}", where=str(path)) from error
    if strange := sorted(set(found) - set(rows())):
        raise LabError(
            f"no driver is called {', '.join(strange)}", where=str(path), expected="names of drivers"
        )
    return found


def write_kept(directory: Path, kept: Mapping[str, Kept]) -> None:
    """Write these, and let the others stand."""
    all_kept = dict(sorted({**read_kept(directory), **kept}.items()))
    (directory / KEPT).write_bytes(HEAD.encode() + msgspec.yaml.encode(all_kept))


def page(kept: Mapping[str, Kept], note: str) -> str:
    """The page of all that is kept."""
    clean = {name: each for name, each in kept.items() if not each.causes}
    lines = ["# What `lab test` came to", "", note, "", *_intro(), "", "## Without a defect", ""]
    lines += list(_clean(clean)) if clean else ["None of those that are kept."]
    lines += ["", "## What it took", "", *_took(kept)]
    return "\n".join(lines) + "\n"


def _intro() -> Iterator[str]:
    yield "Each library was examined by `lab test driver:NAME`, from its name alone and with its defaults, on"
    yield "simulated Redis in virtual time. `python -m tests.local.known_defects --keep NAME` does it again,"
    yield "and keeps what comes of it. What is of another version than the registry's is not listed."


def _clean(kept: Mapping[str, Kept]) -> Iterator[str]:
    yield "No defect was found in so many schedules. That is no proof: what was not tried was not seen."
    for name, each in kept.items():
        server = f" --server {each.server}" if each.server else ""
        left = f", {each.undecided} seen and not decided" if each.undecided else ""
        yield ""
        yield f"### {rows()[name].library} {each.version}"
        yield ""
        yield (
            f"{each.schedules:,} schedules on {each.servers}, seed {each.seed}, budget {each.budget}{left}. "
            f"Again: `lab test driver:{name} --budget {each.budget} --seed {each.seed}{server}`."
        )
        yield ""
        tried = (
            (one.part, f"{one.schedules:,} of {one.of:,}" if one.of else f"{one.schedules:,}")
            for one in each.tried
        )
        yield markdown_table(("what was tried", "schedules"), tried).rstrip("\n")


def _took(kept: Mapping[str, Kept]) -> Iterator[str]:
    yield "Seconds are those of a machine with two cores that other work shares, at the load in the table,"
    yield "so the real time is long; the CPU time is that of the lab and the driver. An examination ends when"
    yield "all known defects are found that a driver's name can lead to, or with its budget. What was"
    yield "reported besides was not confirmed on real Redis: it may be a defect, a stated limit, or neither,"
    yield "unless the reason below the table says which."
    yield ""
    rows_of = (
        (
            f"`driver:{name}`",
            each.version,
            f"{len(each.found)} of {len(each.found) + len(each.missed)}",
            ", ".join(each.missed) or "–",
            "not noted" if each.unconfirmed is None else ", ".join(each.unconfirmed) or "–",
            str(each.schedules),
            str(each.cpu_s),
            str(each.real_s),
            f"{each.load:.0f}",
            "all were found" if each.stopped else "the budget ended",
        )
        for name, each in kept.items()
    )
    columns = (
        *("driver", "version", "known found", "missed", "not confirmed", "schedules", "CPU s", "real s"),
        *("load", "ended"),
    )
    yield markdown_table(columns, rows_of).rstrip("\n")
    for name, each in kept.items():
        for cause, why in (each.unconfirmed or {}).items():
            if why:
                yield ""
                yield f"`{cause}` of `driver:{name}`: {why}"


def current(kept: Mapping[str, Kept]) -> dict[str, Kept]:
    """Those of the versions that the registry pins."""
    return {name: each for name, each in kept.items() if each.version == rows()[name].version}
