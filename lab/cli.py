"""The command line: parse, call, print. A command's work is done elsewhere and imported when it is needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(
    name="lab",
    help="Break a distributed lock on purpose, and learn from a sound checker whether it kept its promise.",
    epilog="Exit codes: 0 as expected, 1 not as expected, 2 bad input, 3 unknown, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

images = typer.Typer(
    help="Build, list or remove the images that docker runs need.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(images, name="images")

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]

On = Annotated[str, typer.Option(help="The substrate: auto, or one that lab doctor shows.")]


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code.

    Raises:
        LabError: anything the user can act on.
    """
    sys.path.insert(0, str(Path.cwd()))  # a lock of the user's own may live here
    try:
        code = app(arguments, standalone_mode=False)
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
        str | None, typer.Option(help="The lock under test: a name, or package.module:Class.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The seed of every random choice; drawn and shown if absent.")
    ] = None,
    on: On = "auto",
    out: Annotated[Path, typer.Option(help="Where the run's directory is made.")] = Path("reports"),
    picture: Annotated[
        Literal["always", "unexpected"], typer.Option(help="Which runs are drawn; lab check draws any later.")
    ] = "always",
    as_json: Json = False,
) -> int:
    """Run one scenario: one story, one verdict, one report."""
    from lab.commands import run_command

    return run_command(scenario, settings or [], lock, seed, on, out, picture, as_json=as_json)


@app.command()
def check(
    target: Annotated[Path, typer.Argument(help="A run's directory, or any history file.")],
    as_json: Json = False,
) -> int:
    """Check a stored run, or any history, once more."""
    from lab.commands import check_command

    return check_command(target, as_json=as_json)


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
    as_json: Json = False,
) -> int:
    """Run scenarios and their controls, and show which came out as expected."""
    from lab.commands import verdicts_command

    return verdicts_command(names or [], repeat, jobs, on, out, markdown, as_json=as_json)


@app.command("list")
def list_scenarios(
    claims: Annotated[
        bool, typer.Option("--claims", help="Show who claims what, and which scenario tests it.")
    ] = False,
    as_json: Json = False,
) -> int:
    """List the scenarios that come with the lab, or the claims that they test."""
    from lab.commands import claims_command, list_command

    return claims_command(as_json=as_json) if claims else list_command(as_json=as_json)


@app.command()
def show(scenario: Annotated[str, typer.Argument(help="A scenario's name, or a YAML file.")]) -> int:
    """Print a scenario as YAML, checked, with every default filled in."""
    from lab.commands import show_command

    return show_command(scenario)


@app.command()
def schema() -> int:
    """Print the JSON schema of scenario files, for editors."""
    from lab.commands import schema_command

    return schema_command()


@app.command()
def doctor(as_json: Json = False) -> int:
    """Show what is there, which faults and substrates that allows, and the command that provides the rest."""
    from lab.commands import doctor_command

    return doctor_command(as_json=as_json)


@app.command()
def setup() -> int:
    """Find or provide what local runs need: redis-server, toxiproxy-server and the preload shims."""
    from lab.commands import setup_command

    return setup_command()


@app.command()
def down() -> int:
    """End everything that a killed lab left running."""
    from lab.commands import down_command

    return down_command()


@images.command("build")
def build_images(
    redis_image: Annotated[
        str | None,
        typer.Option(
            help="The image the nodes are built on: redis:8, valkey/valkey:8 …; Debian's if absent."
        ),
    ] = None,
) -> int:
    """Build what is lacking or does not fit this version of the lab, the nodes' image always."""
    from lab.commands import build_images_command

    return build_images_command(redis_image)


@images.command("list")
def list_images(as_json: Json = False) -> int:
    """List the lab's images that the engine has."""
    from lab.commands import list_images_command

    return list_images_command(as_json=as_json)


@images.command("rm")
def remove_images() -> int:
    """Remove all of the lab's images."""
    from lab.commands import remove_images_command

    return remove_images_command()
