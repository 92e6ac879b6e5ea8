"""What ``lab drivers`` and ``lab driver`` do between their arguments and their exit code."""

from __future__ import annotations

from rich.table import Table

from lab.drivers.registry import Row
from lab.errors import ExitCode, LabError
from lab.report.consoles import consoles
from lab.tools.model import Progress

PLACES = ("local", "docker")
"""The substrates that run drivers."""


def list_drivers_command(on: str, *, as_json: bool) -> int:
    """``lab drivers list``."""
    from lab.drivers import PREFIX
    from lab.drivers.place import place_for
    from lab.drivers.registry import rows
    from lab.report.tables import print_table

    _check_place(on)
    data, _ = consoles()
    states = {name: place_for(on, PREFIX + name).why_not(PREFIX + name) for name in rows()}
    if as_json:
        data.print_json(
            data=[
                {
                    "name": name,
                    "library": row.library,
                    "version": row.version or None,
                    "registry": row.registry,
                    "language": row.language,
                    "licence": row.licence,
                    "what": row.what,
                    "needs": list(row.needs),
                    "usable": states[name] is None,
                    "why_not": states[name],
                }
                for name, row in rows().items()
            ]
        )
        return ExitCode.EXPECTED
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("driver", "library", "from", "licence", "what it is", "usable"):
        table.add_column(title)
    for name, row in rows().items():
        library = f"{row.library} {row.version}".strip()
        table.add_row(name, library, row.registry, row.licence, row.what, states[name] or "yes")
    print_table(data, table)
    return ExitCode.EXPECTED


def install_drivers_command(names: list[str], on: str) -> int:
    """``lab drivers install``: 0 if all that were named are there, 3 if one could not be made."""
    from lab.drivers.registry import rows

    _check_place(on)
    data, talk = consoles()
    everything = names == ["all"]
    wanted = [name for name, one in rows().items() if _possible(one)] if everything else names
    about = {name: _about(name, on) for name in wanted}  # a misspelt one is told before anything is made
    failed = False
    for name in wanted:
        try:
            where = _install(name, on, lambda line: talk.print(line, markup=False, style="dim"))
        except LabError as error:
            if not everything and len(wanted) == 1:
                raise
            talk.print(error.render(), markup=False)
            failed = True
        else:
            data.print(f"{name}: {about[name]} in {where}", markup=False)
    return ExitCode.UNKNOWN if failed else ExitCode.EXPECTED


def _about(name: str, on: str) -> str:
    """What is installed by that name. A program of somebody's own needs nothing here, but perhaps there."""
    from lab.drivers import is_driver
    from lab.drivers.registry import row

    if on == "docker" and is_driver(name):
        return "what runs it"
    return f"{row(name).library} {row(name).version}"


def _install(name: str, on: str, progress: Progress) -> str:
    if on == "docker":
        from lab.drivers import docker_images as drivers

        return drivers.install(drivers.named(name), progress)
    from lab.drivers.environment import install

    return str(install(name, progress))


def _check_place(on: str) -> None:
    if on not in PLACES:
        raise LabError(f"no driver runs on {on!r}", where="--on", expected=" or ".join(PLACES))


def check_driver_command(command: str, settings: list[str], *, as_json: bool) -> int:
    """``lab driver check``: 0 if it keeps to the protocol, 1 if not."""
    from lab.drivers.conformance import check_driver
    from lab.substrates.execute import Interrupted, execute

    data, talk = consoles()
    options = dict(map(_option, settings))

    def tell(line: str) -> None:
        if not as_json:
            data.print(line, markup=False)

    try:
        report = execute(check_driver(command, options, tell))
    except Interrupted:
        talk.print("interrupted: everything was stopped", style="yellow")
        return ExitCode.INTERRUPTED
    if as_json:
        data.print_json(data=report.to_dict())
    return report.exit_code


def _possible(row: Row) -> bool:
    return not row.unavailable and not row.missing


def _option(setting: str) -> tuple[str, str | int | float | bool]:
    """``name=value``, the value as YAML reads it."""
    import yaml

    name, equals, text = setting.partition("=")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = None
    if not (name and equals and isinstance(value, str | int | float | bool)):
        raise LabError(f"the option {setting!r}", where="--set", expected="name=value, like retry_count=0")
    return name, value
