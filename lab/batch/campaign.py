"""Campaigns: one task over many seeds, on all cores or on a cluster; what was found so far is never lost.

A campaign knows no scenario and no trial. It hands seeds to workers, writes each result down as it comes,
and goes on where it stopped when it is asked to. Results depend on task and seed alone, so that neither the
number of workers nor their deaths can change the tally.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from lab.batch.journal import Journal
from lab.batch.row import Row
from lab.batch.tally import Tally
from lab.batch.task import Runner, Task, code_digest
from lab.errors import LabError

SEEDS_MAX: Final = 10_000_000
"""More than this in one campaign is taken for a slip of the finger."""


def open_results(path: Path, task: Task, *, resume: bool) -> Journal:
    """Open the file of a campaign's results, or make it.

    Raises:
        LabError: it cannot be written; it has results and ``resume`` is not given; it belongs to another
            task, or to a campaign that is running; one of its lines is damaged.
    """
    journal = Journal(path)
    try:
        _must_fit(journal, identity_bytes(task), resume=resume)
    except BaseException:
        journal.close()
        raise
    return journal


def _must_fit(journal: Journal, identity: bytes, *, resume: bool) -> None:
    if not journal.rows:  # nothing was ever found here
        journal.begin(identity)
        return
    if not resume:
        raise LabError(
            f"there are results of {len(journal.rows)} seeds already",
            where=str(journal.path),
            hint="--resume goes on with the missing seeds; --out chooses another directory",
        )
    if journal.identity != identity:
        raise LabError(
            "these are the results of another task",
            where=f"{journal.path}:1",
            expected="the same scenario, overrides, lock and faults, and the same code of the lab",
            hint="choose another directory with --out",
        )


def known_results(journal: Journal) -> dict[int, Row]:
    """Seed → its result; of several the last one counts, and a lost seed has none."""
    return {row.seed: row for row in journal.rows if not row.lost}


async def run_campaign(
    task: Task,
    seeds: Sequence[int],
    journal: Journal,
    runner: Runner,
    on_result: Callable[[Row, Tally], None] = lambda result, tally: None,
) -> Tally:
    """Run the seeds that have no result yet, and return the tally of all these seeds.

    ``journal`` is open; whatever ends this, a cancellation included, has in it all that was found.

    Raises:
        LabError: no worker can be started, or the task cannot be run at all.
    """
    before = known_results(journal)
    tally = Tally()
    for seed in seeds:
        if seed in before:
            tally.add(before[seed])

    def keep(result: Row) -> None:
        journal.append(result)
        tally.add(result)
        on_result(result, tally)

    missing = [seed for seed in seeds if seed not in before]
    try:
        if missing:
            await runner(task, missing, keep)
    finally:
        journal.sync()
    return tally


def runner(jobs: int | None = None, cluster: str | None = None) -> Runner:
    """What runs the seeds: ``jobs`` processes here, one for each core if None, or the cluster at an address.

    Raises:
        LabError: both are given.
    """
    if cluster is not None:
        from lab.batch.dask import on_cluster

        if jobs is not None:
            raise LabError(
                "--jobs says how many processes run here, and with --dask none does",
                hint="leave one of them out",
            )
        return partial(on_cluster, address=cluster)
    from lab.batch.cores import cores, on_cores

    return partial(on_cores, jobs=jobs or cores())


_PART: Final = re.compile(r"(?P<first>\d{1,18})(?::(?P<end>\d{1,18}))?")


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds that ``text`` names: ``7``, ``0:10000`` (the end is not included), or several with commas.

    They come in the order in which they are named, each once.

    Raises:
        LabError: it is no such text, or it names none or too many.
    """
    ranges = [_range(part.strip(), text) for part in text.split(",")]
    if sum(map(len, ranges)) > SEEDS_MAX:
        raise _bad_seeds(text, f"names more than {SEEDS_MAX:,} seeds")
    return tuple(dict.fromkeys(seed for part in ranges for seed in part))


def _range(part: str, text: str) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        raise _bad_seeds(text, f"has a part {part!r} that is neither a seed nor a range")
    first = int(match["first"])
    end = first + 1 if match["end"] is None else int(match["end"])
    if end <= first:
        raise _bad_seeds(text, f"has a part {part!r} that names no seed: the end is not included")
    return range(first, end)


def _bad_seeds(text: str, what: str) -> LabError:
    return LabError(
        f"{text!r} {what}",
        where="--seeds",
        expected="a seed, a range FIRST:END without its end, or several of them with commas",
        hint="--seeds 0:10000",
    )


def identity_bytes(task: Task) -> bytes:
    """What two campaigns must agree in to share results: the task, and the code of lab and checker."""
    return msgspec.json.encode({"task": task.identity(), "code": code_digest()}, order="sorted")
