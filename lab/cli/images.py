"""``lab images``: build, list, rm."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.options import Json

app = typer.Typer(
    name="images",
    help="Build, list or remove the images that docker runs need.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def build(
    redis_image: Annotated[
        str | None,
        typer.Option(
            help="Nodes on this image, with its server: redis:8, valkey/valkey:8 …; not the default's."
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(help="Nodes with this server, not the default: redis@7.2, valkey@9.1. Repeatable."),
    ] = None,
    consensus: Annotated[
        bool, typer.Option("--consensus", help="Also those of etcd, ZooKeeper and Postgres.")
    ] = False,
) -> int:
    """Build the images that are missing or of another version of the lab."""
    from lab.api.images import build
    from lab.report.consoles import consoles

    data, talk = consoles()
    built = build(
        lambda line: talk.print(line, markup=False, style="dim"),
        servers=tuple(server or ()),
        redis_image=redis_image,
        consensus=consensus,
    )
    for name in built:
        data.print(name, markup=False)
    return 0


@app.command("list")
def list_images(as_json: Json = False) -> int:
    """List the lab's images that the engine has."""
    from dataclasses import asdict

    from lab.api.images import present
    from lab.report.consoles import consoles

    data, _ = consoles()
    found = present()
    if as_json:
        data.print_json(data=[asdict(image) for image in found])
        return 0
    width = max((len(image.name) for image in found), default=0)
    for image in found:
        data.print(f"{image.name:<{width}}  {image.size_bytes // 10**6:>4} MB  on {image.base}", markup=False)
    if not found:
        data.print("none: lab images build makes them")
    return 0


@app.command()
def rm() -> int:
    """Remove all of the lab's images."""
    from lab.api.images import remove
    from lab.report.consoles import consoles

    data, _ = consoles()
    for name in remove():
        data.print(f"removed {name}", markup=False)
    return 0
