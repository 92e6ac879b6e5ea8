"""Campaigns: one task over many seeds, on all cores or on a cluster; results so far are never lost.

A campaign knows no scenario and no trial. It hands seeds to workers, writes each result to a file, and can be
resumed. Results depend on task and seed alone, so that neither the number of workers nor crashes of workers
change the tally.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from lab.batch.dask import on_cluster, refuse_jobs
from lab.batch.journal import Journal
from lab.batch.row import Row
from lab.batch.seeds import run_seeds
from lab.batch.tally import Tally
from lab.batch.task import Runner, Task, code_digest
from lab.errors import LabError

SEEDS_MAX: Final = 10_000_000
"""More than this in one campaign is refused as a typing error."""
DIGEST_LETTERS: Final = 8
"""How many characters of a task's digest are in the name of its file."""


def results_path(out: Path, task: Task) -> Path:
    """The file of a campaign's results: named after the task, with a digest of all that it depends on.

    So campaigns with another lock, other settings or other kinds of faults have files of their own.
    """
    digest = sha256(msgspec.json.encode(task.identity(), order="sorted")).hexdigest()
    name = "".join(each if each.isalnum() or each in "-_." else "-" for each in task.name)
    return out / f"campaign-{name}-{digest[:DIGEST_LETTERS]}.jsonl"


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
    if not journal.rows:
        journal.begin(identity)
        return
    if journal.identity != identity:
        raise LabError(
            "these are the results of another task",
            where=f"{journal.path}:1",
            expected="the same scenario, overrides, lock and faults, and the same code of the lab",
            hint="remove the file to start again, or choose another directory with --out",
        )
    if not resume:
        raise LabError(
            f"there are results of {len(journal.rows)} seeds already",
            where=str(journal.path),
            hint="--resume continues with the missing seeds; --out chooses another directory",
        )


def known_results(journal: Journal) -> dict[int, Row]:
    """Seed → its result, the last one if there are several; a lost seed has none."""
    return {row.seed: row for row in journal.rows if not row.lost}


async def run_campaign(
    task: Task,
    seeds: Sequence[int],
    journal: Journal,
    runner: Runner,
    on_result: Callable[[Row, Tally], None] = lambda result, tally: None,
) -> Tally:
    """Run the seeds without a result, and return the tally of all these seeds.

    ``journal`` is open; it has all results, also after an error or a cancellation.

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
    """The runner of seeds: ``jobs`` processes here, one for each core if None, or the cluster at an address.

    Raises:
        LabError: both are given.
    """
    if cluster is not None:
        refuse_jobs(jobs)
        return partial(on_cluster, address=cluster)
    return partial(run_seeds, jobs=jobs)


_PART: Final = re.compile(r"(?P<first>\d{1,18})(?::(?P<end>\d{1,18}))?")


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds that ``text`` names: ``7``, ``0:10000`` (the end is not included), or several with commas.

    They are in the order of the text, each once.

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
    """What two campaigns must have in common to share results: the task, and the code of lab and checker."""
    return msgspec.json.encode({"task": task.identity(), "code": code_digest()}, order="sorted")
