"""Run the benchmarks that claims rest on, and keep what they print: `python -m benchmarks.publish [NAME …]`.

Writes docs/measurements.md: for each benchmark its command, when it ran and what it printed, the load of the
machine included. Benchmarks that are not named keep what stands there. Figures depend on the machine, so the
claims quote ratios of what took turns within one run.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "measurements.md"
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "split_vote": ("--rounds", "40"),
    "persistence": ("--rounds", "7"),
    "consensus": ("--rounds", "10"),
    "peers": ("--rounds", "5", "--seconds", "0.3"),
    "checker_scale": ("100_000", "1_000_000", "10_000_000"),
    "checker_vs_porcupine": ("100_000", "10_000_000"),
}
"""The benchmarks, with rounds enough for a ratio and few enough for a minute each."""
WHY: Final = {
    "split_vote": "What random retry and asking all nodes at once buy against split votes (claim 17).",
    "persistence": "What it costs to sync each write, and what five nodes cost (claims 19 and 20).",
    "consensus": "What a lock costs on one node, on five, and by consensus (claim 20).",
    "peers": "The lab's Redlock, the Python libraries and the bare protocol: what one lock takes (claim 17).",
    "checker_scale": "How long it takes to load and to check a history, and how much memory.",
    "checker_vs_porcupine": "Linearizability alone, beside Porcupine, which needs Go.",
}
HEAD: Final = """# Measurements

Kept by `python -m benchmarks.publish`. The machine was shared with other work, so only ratios within one
table mean something: what is compared took turns within each round. Every head names the load.
"""
SECTION: Final = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def section(name: str, printed: str, day: str) -> str:
    """One benchmark as the page tells it."""
    command = " ".join(["python -m", f"benchmarks.{name}", *COMMANDS[name]])
    return f"## {name}\n\n{WHY[name]}\n\n`{command}`, {day}:\n\n```text\n{printed.rstrip()}\n```\n"


def kept(text: str) -> dict[str, str]:
    """The sections of a page, by benchmark."""
    return {found[1]: f"## {found[1]}\n{found[2].rstrip()}\n" for found in SECTION.finditer(text)}


def page(sections: dict[str, str]) -> str:
    """The page, in the order of `COMMANDS`."""
    return "\n".join([HEAD, *(sections[name] for name in COMMANDS if name in sections)])


def main(arguments: list[str]) -> int:
    """Run and write; 3 if a benchmark failed, whose old section stays."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.publish", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(COMMANDS)}; all without a name")
    chosen = parser.parse_args(arguments).names or list(COMMANDS)
    if unknown := [name for name in chosen if name not in COMMANDS]:
        parser.error(f"no benchmark is called {unknown[0]!r}: {', '.join(COMMANDS)}")
    sections = kept(PAGE.read_text(encoding="utf-8")) if PAGE.is_file() else {}
    failed = 0
    for name in chosen:
        run = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", *COMMANDS[name]],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if run.returncode:
            print(f"error: benchmarks.{name} ended with {run.returncode}", file=sys.stderr)
            failed = 3
            continue
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        sections[name] = section(name, run.stdout, day)
        PAGE.write_text(page(sections), encoding="utf-8")
        print(run.stdout, flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
