"""``lab test``: its arguments."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import Dask, Jobs, Json, Server, exclude
from lab.errors import LabError

app = typer.Typer()


@app.command("test")
def examine_lock(
    lock: Annotated[
        str | None, typer.Argument(help="The lock under test: a name, package.module:name, or a driver.")
    ] = None,
    budget: Annotated[str, typer.Option(help="Processor time for all of it, like 120s.")] = "120s",
    schedules: Annotated[
        int | None, typer.Option(min=1, help="How many schedules at most, within the budget.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of everything that is drawn.")] = 0,
    nodes: Annotated[int, typer.Option(min=1, max=7, help="How many nodes.")] = 5,
    replicas: Annotated[
        int,
        typer.Option(min=0, max=4, help="How many replicas the one master has, in place of --nodes."),
    ] = 0,
    sentinels: Annotated[
        int,
        typer.Option(min=0, max=5, help="How many Sentinels watch that master, and promote a replica."),
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="An option of the lock: node_timeout=100ms. Repeatable."),
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=0, help="How often a driver's defects are run on real Redis; 0: they are not.")
    ] = 3,
    key: Annotated[
        str | None, typer.Option(help="The pattern of keys, like order:{}, in place of the lock's own.")
    ] = None,
    jobs: Jobs = None,
    dask: Dask = None,
    server: Server = None,
    junit: Annotated[Path | None, typer.Option(help="Write the result as JUnit XML as well.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The directory of the page and the scenarios; reports/test-… if absent."),
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(help="Run a defect-N.yaml, defect-N.json or undecided-N.json again, only.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail, with exit code 1, also on what is not decided.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Examine a lock against the reference of its kind: 0 no defect found, 1 defects, 3 not finished."""
    from lab.api.examinations import Asked, parse_options
    from lab.cli.examine_output import examine_command, replay_command

    if replay is not None:
        others = {f"the lock {lock}": lock, "--junit": junit, "--out": out, "--set": settings, "--jobs": jobs}
        others["--dask"] = dask
        exclude({"--replay": True, **others})
        return replay_command(replay, as_json=as_json)
    if key is not None and key.count("{}") != 1:
        raise LabError(f"{key!r} is no pattern of keys", where="--key", expected="a text with {} in it once")
    if lock is None:
        raise LabError(
            "a lock is missing",
            expected="a lock of the lab's, or package.module:name",
            hint="lab test my_lock:MyLock, or lab test redlock",
        )
    asked = Asked(
        lock,
        budget,
        seed,
        nodes,
        parse_options(lock, settings or ()),
        repeat,
        jobs,
        server=server or "",
        keys=key or "",
        strict=strict,
        dask=dask or "",
        replicas=replicas,
        sentinels=sentinels,
        schedules=schedules,
    )
    command = shlex.join(["lab", *sys.argv[1:]])
    return examine_command(asked, out, junit, command=command, as_json=as_json)
