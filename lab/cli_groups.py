"""The command line's groups of commands: images, drivers, driver."""

from __future__ import annotations

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


@drivers.command("list")
def list_drivers(as_json: Json = False) -> int:
    """List the libraries: version, licence, and whether each can be used now, or what it lacks."""
    from lab.driver_commands import list_drivers_command

    return list_drivers_command(as_json=as_json)


@drivers.command("install")
def install_drivers(
    names: Annotated[list[str], typer.Argument(help="Which (lab drivers list), or all.")],
) -> int:
    """Install libraries, each into an environment of its own in the user's cache."""
    from lab.driver_commands import install_drivers_command

    return install_drivers_command(names)


@driver.command("check")
def check_driver(
    command: Annotated[str, typer.Argument(help="The driver: driver:NAME, ./my-driver, 'node driver.js'.")],
    options: Annotated[
        list[str] | None, typer.Option("--set", help="An option for it: retry_count=0. Repeatable.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Check that a driver keeps to the protocol, against five real nodes: 0 it does, 1 it does not."""
    from lab.driver_commands import check_driver_command

    return check_driver_command(command, options or [], as_json=as_json)
