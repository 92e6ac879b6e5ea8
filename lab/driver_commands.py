"""What ``lab drivers`` and ``lab driver`` do between their arguments and their exit code."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from lab.drivers.registry import Row
from lab.errors import ExitCode, LabError


def _consoles() -> tuple[Console, Console]:
    """The console for data (stdout) and the one for talk (stderr)."""
    return Console(highlight=False, soft_wrap=True), Console(stderr=True, highlight=False, soft_wrap=True)


def list_drivers_command(*, as_json: bool) -> int:
    """``lab drivers list``."""
    from lab.drivers.environment import why_not
    from lab.drivers.registry import rows
    from lab.report.tables import print_table

    data, _ = _consoles()
    states = {name: why_not(name) for name in rows()}
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


def install_drivers_command(names: list[str]) -> int:
    """``lab drivers install``: 0 if all that were named are there, 3 if one could not be made."""
    from lab.drivers.environment import install
    from lab.drivers.registry import row, rows

    data, talk = (
        Console(highlight=False, soft_wrap=True),
        Console(stderr=True, highlight=False, soft_wrap=True),
    )
    everything = names == ["all"]
    wanted = [name for name, one in rows().items() if _possible(one)] if everything else names
    for name in wanted:
        row(name)  # a misspelt name is told before anything is made
    failed = False
    for name in wanted:
        try:
            where = install(name, lambda line: talk.print(line, markup=False, style="dim"))
        except LabError as error:
            if not everything and len(wanted) == 1:
                raise
            talk.print(error.render(), markup=False)
            failed = True
        else:
            data.print(f"{name}: {row(name).library} {row(name).version} in {where}", markup=False)
    return ExitCode.UNKNOWN if failed else ExitCode.EXPECTED


def check_driver_command(command: str, settings: list[str], *, as_json: bool) -> int:
    """``lab driver check``: 0 if it keeps to the protocol, 1 if not."""
    from lab.drivers.conformance import check_driver
    from lab.execute import Interrupted, execute

    data, talk = (
        Console(highlight=False, soft_wrap=True),
        Console(stderr=True, highlight=False, soft_wrap=True),
    )
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
