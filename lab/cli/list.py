"""``lab list``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lab.cli.options import Json, exclude

app = typer.Typer()


@app.command("list")
def list_scenarios(
    name: Annotated[
        str | None, typer.Argument(help="Print this scenario as YAML, checked, with every default.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of scenario files, for editors.")
    ] = False,
    claims: Annotated[
        bool, typer.Option("--claims", help="Show who claims what, and which scenario tests it.")
    ] = False,
    libraries: Annotated[
        bool, typer.Option("--libraries", help="List those about published libraries instead.")
    ] = False,
    consensus: Annotated[
        bool,
        typer.Option("--consensus", help="List those about etcd, ZooKeeper and Postgres instead."),
    ] = False,
    sentinel: Annotated[bool, typer.Option("--sentinel", help="List those about Sentinel instead.")] = False,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="List those about Redis Cluster instead.")
    ] = False,
    as_json: Json = False,
) -> int:
    """List the scenarios that come with the lab, or the claims that they test; or print one."""
    from lab.api import scenarios

    servers = {"--consensus": consensus, "--sentinel": sentinel, "--cluster": cluster}
    sets = {"--libraries": libraries, **servers}
    exclude({"a scenario": name is not None, "--schema": schema, "--claims": claims, **sets})
    if name is not None:
        sys.stdout.write(scenarios.text_of(name))
    elif schema:
        _print_json(scenarios.json_schema())
    elif claims:
        _claims(as_json=as_json)
    else:
        chosen = next((word.removeprefix("--") for word, wanted in sets.items() if wanted), None)
        _scenarios(chosen, as_json=as_json)
    return 0


def _scenarios(about: str | None, *, as_json: bool) -> None:
    from lab.api.scenarios import summaries

    rows = summaries(about)
    if as_json:
        _print_json(rows)
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        control = f" (control: {row.control})" if row.control else ""
        sys.stdout.write(f"{row.name:<{width}}  {row.title}{control}\n")


def _claims(*, as_json: bool) -> None:
    from lab.api.scenarios import claim_rows
    from lab.report.arguments import claim_table
    from lab.report.consoles import consoles
    from lab.report.tables import print_table

    rows = claim_rows()
    if as_json:
        _print_json(rows)
    else:
        print_table(consoles()[0], claim_table(rows))


def _print_json(content: object) -> None:
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
