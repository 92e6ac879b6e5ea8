"""The drivers that come with the lab: which library, which version, how it is made and started.

``registry.yaml`` is the only place where versions are pinned, apart from the lock files of other languages'
own tools. A row with ``unavailable`` has no driver: it says what one would need. `python -m lab.report.docs`
makes a page of all rows.
"""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Annotated, Final

import msgspec
import yaml

from lab.errors import LabError, did_you_mean

HERE: Final = Path(__file__).parent
Words = tuple[str, ...]
NonEmpty = Annotated[Words, msgspec.Meta(min_length=1)]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One library.

    In ``install``, ``command`` and ``environment``, ``{env}`` stands for the directory of its environment,
    ``{here}`` for the directory of the lab's drivers, ``{python}`` for the Python that runs the lab.
    ``sources`` are files or directories below ``{here}`` that are copied into the environment before it is
    made (a directory's content, not itself); it is made anew when one of them, or the row, has changed.
    ``files`` (patterns) must be there afterwards. ``environment`` is laid over the driver's own. ``shares``
    names another row whose environment this one uses. ``nodes`` is how many nodes its lock asks, the first
    ones; all if it is left out. ``listed``: Redlock's page lists it, in one of its editions. ``modelled`` is
    the lock of the lab's own that is the same algorithm, written anew from reading its source. ``asks`` is
    "sentinels" if it asks Redis Sentinels for the master.
    """

    library: str
    version: str
    registry: str
    language: str
    licence: str
    what: str
    needs: Words = ()
    sources: Words = ()
    install: tuple[NonEmpty, ...] = ()
    files: Words = ()
    command: Words = ()
    environment: dict[str, str] = {}
    shares: str = ""
    nodes: int | None = None
    listed: bool = False
    modelled: str = ""
    asks: str = ""
    unavailable: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The programs that it needs and this machine lacks."""
        return tuple(program for program in self.needs if shutil.which(program) is None)


class _Registry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    drivers: dict[str, Row]


@functools.cache
def rows() -> dict[str, Row]:
    """All rows by name, sorted. Raises LabError if the registry is damaged."""
    path = HERE / "registry.yaml"
    try:
        data = yaml.load(
            path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
        found = msgspec.convert(data, _Registry).drivers
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise LabError(
            f"the registry of drivers is damaged: {error}", where=str(path), hint="reinstall lock-lab"
        ) from error
    return dict(sorted(found.items()))


def row(name: str) -> Row:
    """The row of that name. Raises LabError if there is none."""
    known = rows()
    if name in known:
        return known[name]
    near = did_you_mean(name, known)
    raise LabError(
        f"the lab has no driver called {name!r}",
        expected=", ".join(known),
        hint=f"did you mean {near!r}?"
        if near
        else "`lab drivers list` shows them; your own: --lock ./my-driver",
    )
