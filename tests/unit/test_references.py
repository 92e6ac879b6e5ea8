"""What pages and notebooks name is there: commands with their options, files, headings, modules."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from lab.cli.app import command

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted(
    path
    for pattern in (
        "*.md",
        "docs/*.md",
        "compose/*.md",
        "lab/drivers/*.md",
        "reports/gallery/*.md",
        "notebooks/*.ipynb",
    )
    for path in ROOT.glob(pattern)
)
FENCED: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
INLINE: Final = re.compile(r"(?<!`)``?([^`]+?)``?(?!`)")
SHELL: Final = ("sh", "console", "bash")
MADE: Final = ("reports/latest", "reports/test-", "tested/", "local/", "envs/")
"""Beginnings of paths that runs make."""


each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())


@cache
def prose(page: Path) -> str:
    """The text of a page, or of the markdown cells of a notebook."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        return "\n\n".join("".join(cell["source"]) for cell in _cells(page, "markdown"))
    return text


def _cells(page: Path, kind: str) -> list[dict[str, Any]]:
    return [
        cell for cell in json.loads(page.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind
    ]


def inline(page: Path) -> list[str]:
    """What stands as code within sentences; a line break in it is a blank."""
    return [" ".join(code.split()) for code in INLINE.findall(FENCED.sub("", prose(page)))]


def command_lines(page: Path) -> Iterator[list[str]]:
    """Every call of ``lab``, without its first word: in code blocks, in sentences, in cells."""
    for _, language, block in FENCED.findall(prose(page)):
        for line in block.replace("\\\n", " ").splitlines() if language in SHELL else ():
            yield from _words(line.removeprefix("$ "))
    for code in inline(page):
        yield from _words(code)
    if page.suffix == ".ipynb":
        for cell in _cells(page, "code"):
            lines = [line for line in cell["source"] if not line.startswith("%%writefile")]
            if len(lines) == len(cell["source"]):
                yield from _calls("".join(lines))


def _words(line: str) -> Iterator[list[str]]:
    """The words behind ``lab``; what is left out (…) is left out."""
    if re.match(r"(\.venv/bin/)?lab\s", line):
        yield [word for word in shlex.split(line, comments=True)[1:] if word != "…"]


def _calls(source: str) -> Iterator[list[str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lab":
            yield [str(one.value) for one in node.args if isinstance(one, ast.Constant)]


@cache
def checker_options() -> set[str]:
    """The options of ``python -m checker``, which `lab check` hands on."""
    asked = subprocess.run(
        [sys.executable, "-m", "checker", "--help"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(re.findall(r"--[a-z][a-z-]*", asked.stdout))


def parsed(words: list[str]) -> str:
    """The error that the command line has for these words, without running anything; "" without one."""
    program: Any = command()
    inside = None
    rest = list(words)
    try:
        while hasattr(program, "commands"):
            if not rest or rest[0] in ("--help", "--version"):
                return ""
            name = rest.pop(0)
            if name not in program.commands:
                return f"no command {name!r}"
            inside = program.make_context(name, [], parent=inside, resilient_parsing=True)
            program = program.commands[name]
        options = {option for one in program.params for option in (*one.opts, *one.secondary_opts)}
        if program.context_settings.get("ignore_unknown_options"):  # they go to the checker's own command
            options |= checker_options()
        unknown = [
            word
            for word in rest
            if word.startswith("--") and word.partition("=")[0] not in {*options, "--help"}
        ]
        if unknown:
            return f"no option {unknown[0]!r}"
        wanted = [word for word in rest if word != "--help"]
        program.make_context(program.name, wanted, parent=inside, resilient_parsing="--help" in rest)
    except typer.TyperException as error:
        # A mention such as `lab suite --for` may end before an argument; nothing else may be wrong with it.
        ends = type(error).__name__ == "MissingParameter" or (rest[-1:] != [] and rest[-1] in options)
        return "" if ends else error.format_message()
    return ""


@each_page
def test_every_command_that_is_named_exists_with_its_options(page: Path) -> None:
    wrong = {" ".join(words): error for words in command_lines(page) if (error := parsed(words))}
    assert wrong == {}


@each_page
def test_the_checkers_options_exist(page: Path) -> None:
    lines = re.findall(r"python -m checker((?: [\w./-]+)+)", " ".join(prose(page).split()))
    named_there = {option for line in lines for option in re.findall(r"--[a-z][a-z-]*", line)}
    assert named_there <= checker_options()


def test_commands_are_found_and_wrong_ones_noticed() -> None:
    assert sum(len(list(command_lines(page))) for page in PAGES) > 100
    assert ["suite", "--for", "hasty:Hasty"] in list(
        command_lines(ROOT / "notebooks/5-test-your-own-lock.ipynb")
    )
    assert parsed(["verdicts", "--help"]) == "no command 'verdicts'"
    assert parsed(["run", "healthy", "--speed", "2"]) == "no option '--speed'"
    assert parsed(["drivers", "remove", "x"]) == "no command 'remove'"
    assert parsed(["run", "healthy", "--seed", "many"])
    assert parsed(["check", "run", "--explained"]) == "no option '--explained'"
    assert parsed(["run", "healthy", "--seed", "7", "--on", "sim"]) == ""


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", FENCED.sub("", prose(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", prose(page))):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in slugs(path)):
            wrong.append(link)
    assert wrong == []


@each_page
def test_files_and_modules_that_are_named_exist(page: Path) -> None:
    assert [code for code in inline(page) if not _there(page, code)] == []


def _there(page: Path, code: str) -> bool:
    if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/[\w-]*(\.\w+)?", code) and not code.startswith(MADE):
        whole = any((place / code).exists() for place in (ROOT, page.parent, ROOT / "lab"))
        return whole or not (ROOT / code.partition("/")[0]).is_dir() or bool(re.search(r"[A-Z]{3}", code))
    if match := re.match(
        r"(?:python -m )?((?:lab|checker|tests|benchmarks)(?:\.\w+)+)(?::(\w+))?(?:\(|$|\s)", code
    ):
        return _importable(match[1])
    return True


def _importable(dotted: str) -> bool:
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            if find_spec(".".join(parts[:cut])) is None:
                continue
        except ModuleNotFoundError:
            continue
        found: Any = import_module(".".join(parts[:cut]))
        for name in parts[cut:]:
            found = getattr(found, name, None)
        return found is not None
    return False
