"""The parts of an examination, in the order in which they are tried, the most telling first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import count
from random import Random
from typing import Final

from msgspec.structs import replace

from lab.examine.profile.probes import Profile
from lab.examine.programs import S_NS, Program, Setting
from lab.examine.result import Part
from lab.examine.schedules.anchored import ANCHORED, anchored
from lab.examine.schedules.beyond import beyond
from lab.examine.schedules.boundaries import first_faults, second_faults, single_faults
from lab.examine.schedules.failovers import FAILOVERS, failovers
from lab.examine.schedules.names_of_keys import other_names
from lab.examine.schedules.reentrant import nested
from lab.examine.schedules.roles import in_roles
from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.hold import Hold
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.scenario.tracks import Timed
from lab.search import draw as search
from lab.search.draw import Space
from lab.search.faults import Kind as FaultKind
from lab.search.trial import Trial

DRAWN_KINDS: Final[tuple[FaultKind, ...]] = (Cut, Hold, Delay, Crash, Reset, ClientCrash, Pause)
TWO_TRIES: Final = {"retry_count": 2}
"""Options with which an acquire asks twice, so that an attempt that failed is followed by another."""
TRIED_TWICE: Final = ("contend", "at once", "whole lease")
"""The programs that are tried with that, too."""

AGAIN = "holders that take the lock again"
NAMES = "two locks with different names"
SINGLES = "one fault at each command boundary"
BEYOND = "clocks, pauses and nodes that forget"
DRAWN = "drawn schedules"
PAIRS = "at most two faults at command boundaries"

LONG: Final = (AGAIN, ANCHORED, SINGLES)
"""The parts with thousands of schedules."""


def singles(setting: Setting, programs: tuple[Program, ...], random: Random) -> list[Trial]:
    """Each program with one fault at each of its command boundaries, in an order that is drawn."""
    bases = [setting.trial(program) for program in programs]
    found = [replace(base, faults=(fault,)) for base in bases for fault in single_faults(base)]
    random.shuffle(found)
    return found


class Doubles:
    """A program with at most two small faults at its command boundaries: all there are, in a drawn order.

    Args:
        base: the program's trial without faults.
        program: the program.
    """

    def __init__(self, base: Trial, program: Program) -> None:
        self._base, self._random = base, Random(0)
        self._firsts: list[Timed] | None = None
        self._left: dict[Timed, list[Trial]] = {}
        self._drawn = 0
        self.part = Part(f"{PAIRS}: {program.name}", program.about)

    def has_next(self) -> bool:
        """Whether there is another one; the boundaries for a first fault are looked up at the first time."""
        if self._firsts is None:
            self._firsts = first_faults(self._base)
            if not self._firsts:  # a lock that sends nothing
                self.part.of = 0
        return bool(self._firsts)

    def next(self) -> Trial:
        """Another one; the boundaries for a second fault are looked up when its first comes up."""
        assert self._firsts
        first = self._random.choice(self._firsts)
        if first not in self._left:
            alone = replace(self._base, faults=(first,))
            twice = [replace(alone, faults=(first, second)) for second in second_faults(alone)]
            self._left[first] = [alone, *twice]
            self._random.shuffle(self._left[first])
        trial = self._left[first].pop()
        if not self._left[first]:
            self._firsts.remove(first)
        self._drawn += 1
        if not self._firsts:
            self.part.of = self._drawn
        return trial


def drawn(setting: Setting, random: Random, kept: list[Trial]) -> Iterator[Trial]:
    """Random schedules without end, most of them made of one that reached a new state.

    Of a lock that its holder may take again each client releases what it took before it asks again.
    """
    holders = setting.holders()
    space = Space(
        setting.lock,
        dict(setting.options),
        setting.ttl_ns,
        setting.nodes,
        kinds=DRAWN_KINDS,
        store_fences=setting.fences,
        horizon_ns=7 * setting.ttl_ns + 8 * S_NS,
        all_operations=True,
        cancels="cancel" in setting.can,
        demand_ns=3 * setting.ttl_ns + 4 * S_NS,
    )
    for trial in search.drawn(space, random, kept):
        clients = {**trial.clients, **dict.fromkeys(holders, ())}
        trial = replace(trial, clients=clients, tracks=holders, **setting.said_of_driver)
        trial = released_once(trial) if setting.reentrant else trial
        yield random.choice(list(in_roles(setting.capacity, [trial])))


def released_once(trial: Trial) -> Trial:
    """The same trial, where each round ends with a release."""
    clients = {
        name: tuple(replace(each, ends="release") for each in rounds)
        for name, rounds in trial.clients.items()
    }
    return replace(trial, clients=clients)


def parts(
    setting: Setting, profile: Profile, programs: tuple[Program, ...], random: Random
) -> Iterator[tuple[Part, Iterable[Trial]]]:
    """The finite parts with all their trials, in order; the shorter ones first."""
    for part, trials in _parts(setting, profile, programs, random):
        if part.of is None:
            yield part, _counted(part, in_roles(setting.capacity, trials))
        else:
            found = list(in_roles(setting.capacity, trials))
            part.of = len(found)
            yield part, found


def _parts(
    setting: Setting, profile: Profile, programs: tuple[Program, ...], random: Random
) -> Iterator[tuple[Part, Iterable[Trial]]]:
    """The same, with two writers of a read-write lock."""
    if setting.replicated:
        part = Part(FAILOVERS, "the master crashes, or is cut off, and a replica takes its place")
        yield part, failovers(setting, profile)
    yield from (
        (Part(name, about, of=len(trials)), trials)
        for name, about, trials in (
            (NAMES, "the same client takes both, 40 other names", other_names(setting)),
            (BEYOND, "directed", list(beyond(setting, programs))),
        )
        if trials
    )
    if profile.nested is not None:
        part = Part(AGAIN, "its inner end first, alone and with one fault at each sort of sending")
        yield part, nested(profile.nested, profile, random)
    part = Part(ANCHORED, "what clients do, and the ends of faults, wait for what the other does")
    yield part, anchored(setting, profile, random)
    found = singles(setting, programs, random)
    again = {**setting.options, **TWO_TRIES} if "retry_count" in setting.options else None
    if again is not None:
        twice = dataclasses.replace(setting, options=again)
        found += singles(twice, tuple(each for each in programs if each.name in TRIED_TWICE), random)
        random.shuffle(found)
    yield (
        Part(
            SINGLES,
            "lost, held, broken off or answered with an error before and after each command",
            of=len(found),
        ),
        found,
    )


def _counted(part: Part, trials: Iterator[Trial]) -> Iterator[Trial]:
    """These trials; when there are no more, their part says how many there are."""
    numbers = count()
    for trial in trials:
        next(numbers)
        yield trial
    part.of = next(numbers)
