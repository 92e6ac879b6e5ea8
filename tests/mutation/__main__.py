"""`python -m tests.mutation trace`, then `… try --count 800 --seed 1`, then `… show`.

`trace` writes down what each test of the checker executes; the tests must pass. `try` draws mutants at
random, but none that is in `not_counted`, and runs the tests that execute each. `show` prints the share that
was killed, with its 95 % interval, and the mutants that survived. `again` tries those of the last time once
more. Files lie in the directory `mutants`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fuzzing import FEW
from tests.mutation.not_counted import counted
from tests.mutation.sample import ROOT, Task, all_mutants, drawn, interval, lines_of, scores

TESTS = ("checker", "linearizability", "properties", "explanations")
ALONE = ("__main__.py", "helper.py", "compiled.py")
"""What acts in a process of its own, or takes machine code from a file."""


def run(task: Task, shards: int) -> None:
    """Do one task in several processes of pytest. Raises `SystemExit`: one of them failed."""
    where = [f"tests/unit/{room}" for room in TESTS]
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutation.forks", "-p", "no:cacheprovider"]
    command += ["-q", "-n0", "--no-header", f"--hypothesis-profile={FEW}"]
    running = [
        subprocess.Popen(
            [*command, *where],
            cwd=ROOT,
            env=Task(**(vars(task) | {"shard": shard, "shards": shards})).environment(),
            stdout=subprocess.DEVNULL,
        )
        for shard in range(shards)
    ]
    if any([process.wait() not in (0, 5) for process in running]):  # noqa: C419  wait for all of them
        sys.exit("error: pytest failed\n  hint: run the tests of the checker, which must pass")


def show(rows: list[dict[str, Any]]) -> None:
    """Print what came out."""
    for title, chosen in (
        ("all but messages", [row for row in rows if not row["message"]]),
        ("messages", [row for row in rows if row["message"]]),
    ):
        if not chosen:
            continue
        killed, tried = next(iter(scores([row | {"all": 0} for row in chosen], "all").values()))
        low, high = interval(killed, tried)
        print(f"{title}: {killed} of {tried} killed, {killed / tried:.1%} (95 %: {low:.1%} to {high:.1%})")
        for field in ("operator", "module"):
            for name, (some, of) in scores(chosen, field).items():
                print(f"  {some:4} of {of:4}  {some / of:4.0%}  {name}")
        for row in sorted(chosen, key=lambda row: (row["module"], row["line"])):
            if row["status"] in ("survived", "no test"):
                print(
                    f"{row['module']}:{row['line']} {row['operator']}, {row['status']} ({row['tests']} tests)"
                )
                print(f"    - {row['before']}\n    + {row['after']}")


def main() -> None:
    """Read the arguments and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("what", choices=["trace", "try", "again", "show"])
    parser.add_argument("--count", type=int, default=800, help="how many mutants to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="files of the checker, by how they begin")
    parser.add_argument("--messages", action="store_true", help="draw messages, and nothing else")
    parser.add_argument("--cold", action="store_true", help="also what takes a fresh process for each")
    parser.add_argument("--seconds", type=float, default=15.0, help="processor time of tests per mutant")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--directory", type=Path, default=ROOT / "mutants")
    given = parser.parse_args()
    given.directory.mkdir(exist_ok=True)
    profiles, sample, out = (given.directory / n for n in ("profiles.jsonl", "sample.txt", "results.jsonl"))
    if given.what == "trace":
        profiles.touch()
        run(Task("trace", str(profiles), 0, 1, str(profiles), "", given.seconds), given.processes)
        return
    if given.what == "try":
        found = counted(all_mutants(*given.only))
        fitting = {
            file: [m for m in ms if m.message == given.messages and (given.cold or m.in_place)]
            for file, ms in found.items()
            if given.cold or not file.endswith(ALONE)
        }
        chosen = [mutant.name for mutant in drawn(fitting, given.count, given.seed)]
    elif given.what == "again":
        chosen = [row["name"] for row in lines_of(str(out)) if row["status"] in ("survived", "no test")]
    if given.what != "show":
        sample.write_text("\n".join(chosen) + "\n", encoding="utf-8")
        out.unlink(missing_ok=True)
        run(
            Task("try", str(out), 0, 1, str(profiles), str(sample), given.seconds, given.cold),
            given.processes,
        )
    show(lines_of(str(out)))


if __name__ == "__main__":
    main()
