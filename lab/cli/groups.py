"""The command line's groups of commands (images, drivers, driver), and `lab matrix`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]

images = typer.Typer(
    name="images",
    help="Build, list or remove the images that docker runs need.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

drivers = typer.Typer(
    name="drivers",
    help="List or install the lock libraries that the lab has a driver for.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

driver = typer.Typer(
    name="driver", help="Check a driver of your own.", no_args_is_help=True, rich_markup_mode=None
)


@images.command("build")
def build_images(
    redis_image: Annotated[
        str | None,
        typer.Option(
            help="The image the nodes are built on, from now on: redis:8, valkey/valkey:8 …; first Debian's."
        ),
    ] = None,
    consensus: Annotated[
        bool, typer.Option("--consensus", help="Also those of etcd, ZooKeeper and Postgres.")
    ] = False,
) -> int:
    """Build what is lacking or does not fit this version of the lab, the nodes' image always."""
    from lab.cli.commands import build_images_command

    return build_images_command(redis_image, consensus=consensus)


@images.command("list")
def list_images(as_json: Json = False) -> int:
    """List the lab's images that the engine has."""
    from lab.cli.commands import list_images_command

    return list_images_command(as_json=as_json)


@images.command("rm")
def remove_images() -> int:
    """Remove all of the lab's images."""
    from lab.cli.commands import remove_images_command

    return remove_images_command()


DriversOn = Annotated[str, typer.Option("--on", help="Where they are to run: local or docker.")]


@drivers.command("list")
def list_drivers(on: DriversOn = "local", as_json: Json = False) -> int:
    """List the libraries: version, licence, and whether each can be used now, or what it lacks."""
    from lab.cli.drivers import list_drivers_command

    return list_drivers_command(on, as_json=as_json)


@drivers.command("install")
def install_drivers(
    names: Annotated[list[str], typer.Argument(help="Which (lab drivers list), or all.")],
    on: DriversOn = "local",
) -> int:
    """Install libraries, each into an environment of its own in the user's cache, or an image of its own."""
    from lab.cli.drivers import install_drivers_command

    return install_drivers_command(names, on)


@driver.command("check")
def check_driver(
    command: Annotated[str, typer.Argument(help="The driver: driver:NAME, ./my-driver, 'node driver.js'.")],
    options: Annotated[
        list[str] | None, typer.Option("--set", help="An option for it: retry_count=0. Repeatable.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Check that a driver keeps to the protocol, against five real nodes: 0 it does, 1 it does not."""
    from lab.cli.drivers import check_driver_command

    return check_driver_command(command, options or [], as_json=as_json)


def matrix(
    file: Annotated[
        Path | None,
        typer.Argument(help="A file like a suite's; the one that comes with the lab if absent."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Scenarios, locks, labels or ids; * and ? are wild. Repeatable.")
    ] = None,
    on: Annotated[str | None, typer.Option(help="The substrate, in place of what the file says.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How many times as often as the file says.")] = 1,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many real runs at once; one for each core if absent.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the directory of the matrix is made.")] = Path("reports"),
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the matrix in this directory: what is missing is run.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write a line per cell to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the tables to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page with a link to each run.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Also write a form to be kept: tables, and a small history per cell.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the matrix that comes with the lab.")] = False,
    as_json: Json = False,
) -> int:
    """Run locks × scenarios, and show what came out of each: a survey, which no lock can fail."""
    from lab.batch.matrix.command import Asked, matrix_command, show_command
    from lab.batch.suite.run import cores

    if show:
        return show_command()
    chosen = tuple(only or ())
    asked = Asked(file, chosen, on, repeat, jobs or cores(), out, resume, csv, markdown, html, keep)
    return matrix_command(asked, as_json=as_json)
