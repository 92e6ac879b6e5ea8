"""The command line: parse, call, print. A command's work is done elsewhere and imported when it is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import typer

from lab.cli.groups import Json, driver, drivers, images, matrix

app = typer.Typer(
    name="lab",
    help="Break a distributed lock on purpose, and learn from a sound checker whether it kept its promise.",
    epilog="Exit codes: 0 as expected, 1 not as expected, 2 bad input, 3 unknown, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for group in (images, drivers, driver):
    app.add_typer(group)

On = Annotated[str, typer.Option(help="The substrate: auto, or one that lab doctor shows.")]


@cache
def command() -> Callable[..., int | None]:
    """All commands, built from the functions below; a quarter of a second of work."""
    return typer.main.get_command(app)


def _only(name: str) -> Callable[..., int | None] | None:
    """One command without the others, which takes a tenth of the time; None if none is called so."""
    for info in app.registered_commands:
        if info.callback is not None and (info.name or info.callback.__name__) == name:
            return typer.main.get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)
    return None


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code.

    Raises:
        LabError: anything the user can act on.
    """
    sys.path.insert(0, str(Path.cwd()))  # a lock of the user's own may live here
    alone = _only(arguments[0]) if arguments and "--help" not in arguments else None
    try:
        if alone is None:
            code = command()(arguments, standalone_mode=False)
        else:
            code = alone(arguments[1:], standalone_mode=False)
    except typer.TyperException as error:
        print(f"error: {error.format_message()}", file=sys.stderr)  # noqa: T201
        print("  hint: lab --help", file=sys.stderr)  # noqa: T201
        return 2
    return int(code or 0)


@app.command()
def run(
    scenario: Annotated[str, typer.Argument(help="A scenario's name (lab list), or a YAML file.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key: lock.ttl=2s, steps=[…]. Repeatable.")
    ] = None,
    lock: Annotated[
        str | None,
        typer.Option(help="The lock under test: a name, package.module:Class, or a driver."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The seed of every random choice; drawn and shown if absent.")
    ] = None,
    on: On = "auto",
    out: Annotated[Path, typer.Option(help="Where the run's directory is made.")] = Path("reports"),
    picture: Annotated[
        Literal["always", "unexpected", "never"],
        typer.Option(help="Which runs are drawn; lab check draws any later."),
    ] = "always",
    as_json: Json = False,
) -> int:
    """Run one scenario: one story, one verdict, one report."""
    from lab.cli.commands import run_command

    return run_command(scenario, settings or [], lock, seed, on, out, picture, as_json=as_json)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def check(
    options: typer.Context,
    target: Annotated[Path, typer.Argument(help="A run's directory, or any history file (- with --follow).")],
    as_json: Json = False,
) -> int:
    """Check a stored run, or any history, once more.

    Options of the checker go to it: --follow, --explain, --model, --depth, --initial, --max-size, --save.
    """
    from lab.cli.commands import check_command

    return check_command(target, options.args, as_json=as_json)


@app.command()
def report(target: Annotated[Path, typer.Argument(help="A run's directory.")]) -> int:
    """Write a stored run's page, index.html, once more."""
    from lab.report.command import report_command

    return report_command(target)


@app.command()
def plot(
    target: Annotated[Path, typer.Argument(help="A run's directory.")],
    kind: Annotated[
        Literal["timeline", "fencing", "graph", "availability", "latency"], typer.Option(help="What to draw.")
    ] = "timeline",
    out: Annotated[
        Path | None,
        typer.Option(help="The file: .svg, .png or .pdf; KIND.svg in the run's directory if absent."),
    ] = None,
) -> int:
    """Draw one figure of a stored run, for paper."""
    from lab.report.command import plot_command

    return plot_command(target, kind, out)


@app.command()
def demo(
    scenario: Annotated[
        str, typer.Argument(help="A scenario's name (lab list), or a YAML file.")
    ] = "partition-clockjump",
    auto: Annotated[
        bool, typer.Option("--auto", help="Go on by itself, as for a recording, instead of at Enter.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="The seed; drawn and shown if absent.")] = None,
    on: On = "auto",
    out: Annotated[Path, typer.Option(help="Where the run's directory is made.")] = Path("reports"),
) -> int:
    """Run a story and tell it scene by scene, beside what the article says of it."""
    from lab.report.demo.command import demo_command

    return demo_command(scenario, on, seed, out, auto=auto)


@app.command()
def verdicts(
    names: Annotated[
        list[str] | None, typer.Argument(help="Scenarios, each run with its control; all of them if absent.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How often everything is run.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="How many runs at once.")] = 1,
    out: Annotated[Path, typer.Option(help="Where the directory of these runs is made.")] = Path("reports"),
    on: On = "auto",
    markdown: Annotated[Path | None, typer.Option(help="Also write the table to this file.")] = None,
    libraries: Annotated[
        bool, typer.Option("--libraries", help="The stories about libraries whose driver is installed.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Run scenarios and their controls, and show which came out as expected."""
    from lab.cli.commands import verdicts_command

    return verdicts_command(
        names or [], repeat, jobs, on, out, markdown, libraries=libraries, as_json=as_json
    )


@app.command()
def campaign(
    seeds: Annotated[str, typer.Option(help="FIRST:END without END, single seeds, or several with commas.")],
    scenario: Annotated[
        str | None, typer.Argument(help="A scenario; without one, schedules are drawn against --lock.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, as in lab run. Repeatable.")
    ] = None,
    lock: Annotated[
        str | None,
        typer.Option(help="The lock under test: a name, package.module:Class, or a driver."),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(help="For drawn schedules: all, safe (within Redlock's assumptions), or a list."),
    ] = None,
    wire: Annotated[str | None, typer.Option(help="For drawn schedules: direct or resp.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many processes at once; all cores if absent.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="The scheduler of a Dask cluster to run on, like tcp://host:8786.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the file of results is kept.")] = Path("reports"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the seeds that are missing.")] = False,
    as_json: Json = False,
) -> int:
    """Simulate a scenario, or a drawn schedule, for each of many seeds, and count what is found."""
    from lab.cli.commands import campaign_command
    from lab.search.tasks import task_for

    task = task_for(scenario, overrides=settings or [], lock=lock, faults=faults, wire=wire)
    return campaign_command(task, seeds, jobs, cluster, out, resume=resume, as_json=as_json)


@app.command()
def search(
    lock: Annotated[
        str, typer.Option(help="The lock under test: a name, package.module:Class, or a driver.")
    ],
    find: Annotated[str, typer.Option(help="The finding that is searched for.")] = "overlap",
    budget: Annotated[str, typer.Option(help="How long to search, like 60s.")] = "60s",
    schedules: Annotated[int | None, typer.Option(min=1, help="How many schedules at most.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of everything that is drawn.")] = 0,
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 5,
    clients: Annotated[int, typer.Option(help="How many clients.")] = 2,
    faults: Annotated[str | None, typer.Option(help="Kinds of faults, with commas; all if absent.")] = None,
    persistence: Annotated[str, typer.Option(help="What nodes keep; any: drawn as well.")] = "aof-always",
    ttl: Annotated[str, typer.Option(help="The lock's TTL.")] = "10s",
    strategy: Annotated[str, typer.Option(help="guided or random.")] = "guided",
    wire: Annotated[str, typer.Option(help="direct or resp.")] = "direct",
    confirm: Annotated[
        str | None, typer.Option(help="Replay what was found on this substrate: local, docker or sim.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How often it is replayed.")] = 5,
    out: Annotated[Path | None, typer.Option(help="The scenario's file, if one is found.")] = None,
    as_json: Json = False,
) -> int:
    """Search for a schedule that breaks a lock: 0 nothing found, 1 found, saved as a scenario."""
    import shlex

    from lab.search.command import Asked, search_command

    command = shlex.join(["lab", *sys.argv[1:]])
    return search_command(
        Asked(
            lock,
            find,
            budget,
            schedules,
            seed,
            nodes,
            clients,
            faults,
            persistence,
            ttl,
            strategy,
            wire,
            confirm,
            repeat,
            out,
            command,
        ),
        as_json=as_json,
    )


@app.command()
def suite(
    file: Annotated[
        Path | None, typer.Argument(help="A suite's YAML file; the one that comes with the lab if absent.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Scenarios, locks or ids; * and ? are wild. Repeatable.")
    ] = None,
    shard: Annotated[str | None, typer.Option(help="A part of it: 2/5 is the second of five.")] = None,
    since_failure: Annotated[
        bool, typer.Option("--since-failure", help="What failed last time, or was never run; else all.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="How often everything is run.")] = 1,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many real runs at once; one for each core if absent.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the directory of these runs is made.")] = Path("reports"),
    junit: Annotated[Path | None, typer.Option(help="Also write JUnit XML to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write a summary to this file.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the suite that comes with the lab.")] = False,
    as_json: Json = False,
) -> int:
    """Run scenarios × locks × substrates against what is expected of each: for CI."""
    from lab.batch.suite.command import Asked, show_command, suite_command
    from lab.batch.suite.run import cores

    if show:
        return show_command()
    chosen = tuple(only or ())
    asked = Asked(file, chosen, shard, since_failure, repeat, jobs or cores(), out, junit, markdown)
    return suite_command(asked, as_json=as_json)


app.command()(matrix)


@app.command()
def selftest(
    only: Annotated[
        list[str] | None,
        typer.Option(help="A broken lock, or a scenario, by its name; all if absent. Repeatable."),
    ] = None,
    scenarios: Annotated[
        bool,
        typer.Option("--scenarios", help="Instead: leave out each step of each scenario; what notices it?"),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Try the real lock 10,000 times in simulation, and 200 for real.")
    ] = False,
    simulated: Annotated[
        int | None, typer.Option(min=0, help="How many simulated schedules the real lock is tried with.")
    ] = None,
    real: Annotated[int | None, typer.Option(min=0, help="How many real runs it is tried with.")] = None,
    seed: Annotated[int, typer.Option(min=1, help="The seed of everything that is drawn.")] = 1,
    on: On = "auto",
    jobs: Annotated[int, typer.Option(min=1, help="How many real runs at once.")] = 2,
    out: Annotated[Path, typer.Option(help="Where the directory of real runs is made.")] = Path("reports"),
    markdown: Annotated[Path | None, typer.Option(help="Also write the table to this file.")] = None,
    as_json: Json = False,
) -> int:
    """Catch broken locks made for that, and accuse no real one: does the lab still do its work?"""
    if scenarios:
        from lab.batch.selftest.scenarios import scenarios_command

        return scenarios_command(tuple(only or ()), markdown=markdown, as_json=as_json)
    from lab.batch.selftest.command import Asked, selftest_command

    asked = Asked(tuple(only or ()), full, simulated, real, seed, on, jobs, out, markdown)
    return selftest_command(asked, as_json=as_json)


@app.command("list")
def list_scenarios(
    claims: Annotated[
        bool, typer.Option("--claims", help="Show who claims what, and which scenario tests it.")
    ] = False,
    libraries: Annotated[
        bool, typer.Option("--libraries", help="List those about other people's libraries instead.")
    ] = False,
    consensus: Annotated[
        bool,
        typer.Option("--consensus", help="List those about locks on etcd, ZooKeeper and Postgres instead."),
    ] = False,
    as_json: Json = False,
) -> int:
    """List the scenarios that come with the lab, or the claims that they test."""
    from lab.cli.commands import claims_command, list_command

    if claims:
        return claims_command(as_json=as_json)
    return list_command(libraries=libraries, consensus=consensus, as_json=as_json)


@app.command()
def show(scenario: Annotated[str, typer.Argument(help="A scenario's name, or a YAML file.")]) -> int:
    """Print a scenario as YAML, checked, with every default filled in."""
    from lab.cli.commands import show_command

    return show_command(scenario)


@app.command()
def schema() -> int:
    """Print the JSON schema of scenario files, for editors."""
    from lab.cli.commands import schema_command

    return schema_command()


@app.command()
def docs(
    out: Annotated[Path, typer.Option(help="Where the pages are written.")] = Path("docs"),
) -> int:
    """Write a page per story and per finding, from the files themselves, and the gallery's index."""
    from lab.report.command import docs_command

    return docs_command(out)


@app.command()
def doctor(as_json: Json = False) -> int:
    """Show what is there, which faults and substrates that allows, and the command that provides the rest."""
    from lab.cli.commands import doctor_command

    return doctor_command(as_json=as_json)


@app.command()
def setup() -> int:
    """Find or provide what local runs need: redis-server, toxiproxy-server and the preload shims."""
    from lab.cli.commands import setup_command

    return setup_command()


@app.command()
def down() -> int:
    """End everything that a killed lab left running."""
    from lab.cli.commands import down_command

    return down_command()
