"""What is to be run: as requested, and with everything chosen and drawn."""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.drivers import is_driver
from lab.errors import LabError
from lab.scenario.load import LoadedScenario, load_scenario
from lab.substrates import AUTO

if TYPE_CHECKING:
    from lab.scenario.step_base import StepModel
    from lab.substrates.base import Capability


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run as it is requested. It is plain data, which can be sent to another process.

    Args:
        scenario: a scenario's name, its file, or one that is loaded already (overrides included).
        overrides: as ``--set`` takes them: ``lock.ttl=2s``.
        lock: the lock under test, in place of the scenario's: a name, ``package.module:Class``, or a driver.
        seed: of every random choice; drawn if absent.
        substrate: its name, or ``auto``.
        out: where the run's directory is made.
        owned: whether endpoints on other machines may be disturbed.
        keep: whether the cluster is kept up after the run, until a signal or ``lab down``.
    """

    scenario: str | Path | LoadedScenario
    overrides: tuple[str, ...] = ()
    lock: str | None = None
    seed: int | None = None
    substrate: str = AUTO
    out: Path = Path("reports")
    owned: bool = False
    keep: bool = False

    def plan(self) -> Plan:
        """Load the scenario, choose the substrate, draw the seed. Raises ``LabError``: it cannot be run."""
        from lab.drivers.place import refusal
        from lab.run.kept import refuse_keeping
        from lab.run.steps import needed_of, needs
        from lab.scenario.draw import schedule
        from lab.substrates import choose
        from lab.substrates import substrate as chosen_substrate

        overrides, dropped = self._overrides()
        given = self.scenario
        loaded = given if isinstance(given, LoadedScenario) else load_scenario(given, overrides)
        scenario = loaded.scenario
        service, refuses = scenario.cluster.service, refusal(scenario.lock.name)
        seed = secrets.randbelow(2**31) if self.seed is None else self.seed
        drawn = tuple(step for fault in schedule(scenario, seed) for step in fault.every_step())
        needed = needs((*scenario.every_step, *drawn), scenario.every_anchor) | needed_of(scenario)
        wanted = scenario.cluster.server
        if wanted is not None and service != "redis":
            raise LabError(f"{wanted} for nodes of {service}", where="cluster.server", expected="Redis nodes")
        on = self._on(loaded, (*scenario.every_step, *drawn), needed)
        substrate, why = choose(
            on,
            needed,
            service=service,
            refuses=refuses,
            server=wanted,
            settings=scenario.cluster.settings,
        )
        if self.keep:
            refuse_keeping(substrate)
        chosen = chosen_substrate(substrate)
        servers = chosen.servers(wanted) if service == "redis" else None
        name = loaded.name if isinstance(given, LoadedScenario) else str(given)
        words = ["lab", "run", name, "--seed", str(seed), "--on", substrate]
        words += [word for override in overrides for word in ("--set", override)]
        words += ["--i-own-these"] if self.owned else []
        return Plan(loaded, seed, substrate, why, self.out, shlex.join(words), servers, dropped, self.keep)

    def _on(self, loaded: LoadedScenario, steps: Sequence[StepModel], needed: frozenset[Capability]) -> str:
        """The substrate: with endpoints there is one. Raises ``LabError``: they can't be used."""
        from lab.faults.base import Fault
        from lab.scenario.anchors import NodesExecuted
        from lab.substrates import ENDPOINTS, SUBSTRATES
        from lab.substrates import substrate as known
        from lab.substrates.base import Capability
        from lab.substrates.refusals import lacking

        existing = loaded.scenario.cluster.existing
        if existing is None:
            if self.substrate != ENDPOINTS:
                return self.substrate
            raise LabError(
                "no endpoints are named", where="--on", expected="--endpoints rediss://USER@HOST:PORT,…"
            )
        if self.substrate not in (AUTO, ENDPOINTS):
            seen = f"{self.substrate} starts servers of its own, and there are endpoints"
            raise LabError(seen, where="--on", expected="auto or endpoints")
        lacks = needed - known(ENDPOINTS).capabilities
        if lacks:
            named = [step.KEY for step in steps if isinstance(step, Fault) and step.needs in lacks]
            if Capability.SEE_COMMANDS in lacks:
                anchors = (one for one in loaded.scenario.every_anchor if isinstance(one, NodesExecuted))
                named += [f"until executed {anchor.executed}" for anchor in anchors]
            others = [name for name in SUBSTRATES if not needed - known(name).capabilities]
            raise LabError(
                f"{lacking(ENDPOINTS, lacks)}{_steps_named(named)}",
                where=loaded.name,
                expected="faults of clients and links: cut, hold, delay, reset, pause, jump, client_crash",
                hint=f"without --endpoints, {' or '.join(others)} can" if others else None,
            )
        far = [server.place for server in existing.servers if not server.is_on_this_machine]
        if far and not self.owned:
            raise LabError(
                f"{', '.join(far)} is not this machine",
                where=f"{loaded.name}, key `cluster.endpoints`",
                expected="servers that you may disturb, as --i-own-these says",
                hint="docs/endpoints.md says what the lab does there",
            )
        return ENDPOINTS

    def _overrides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The overrides, and the options of the scenario that are dropped since ``lock`` does not take them.

        Options that an override sets are none of the scenario's: the lock refuses them by name. So
        does a driver those of a scenario about a driver, which only its process can tell apart.
        """
        if self.lock is None or isinstance(self.scenario, LoadedScenario):
            return self.overrides, ()
        own = load_scenario(self.scenario).scenario.lock
        changed = load_scenario(self.scenario, self.overrides).scenario.lock
        named = (f"lock.name={self.lock}",)
        if self.lock == own.name or (is_driver(self.lock) and is_driver(own.name)):
            return (*self.overrides, *named), ()
        from lab.locks import refused_options

        kept = {name: value for name, value in changed.options.items() if own.options.get(name) != value}
        foreign = {name: value for name, value in changed.options.items() if name not in kept}
        dropped = refused_options(self.lock, changed.ttl_ns, foreign)
        if not dropped:
            return (*self.overrides, *named), ()
        left = {name: value for name, value in changed.options.items() if name not in dropped}
        options = json.dumps(left, ensure_ascii=False)
        return (*self.overrides, *named, f"lock.options={options}"), dropped


def _steps_named(keys: Sequence[str]) -> str:
    return f": {', '.join(dict.fromkeys(keys))}" if keys else ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A request with everything chosen and drawn.

    ``why`` says why this substrate was chosen; ``repeat`` is the command that repeats the run; ``servers``
    names product and version of the nodes, where they are known before these are up. ``dropped`` are options
    of the scenario's own lock that the lock under test does not take. ``keep``: see ``RunRequest``.
    """

    loaded: LoadedScenario
    seed: int
    substrate: str
    why: str
    out: Path
    repeat: str
    servers: str | None = None
    dropped: tuple[str, ...] = ()
    keep: bool = False
