"""The claims about Redlock with their conclusions, as table and page; and the page of implementations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from lab.drivers import PREFIX
from lab.drivers.registry import Row
from lab.paths import scenario_dir
from lab.report.tables import markdown_table
from lab.report.words import verdict_words
from lab.scenario.claims import ClaimRow, Conclusion, Tested
from lab.scenario.files import shipped
from lab.scenario.load import LoadedScenario

VERDICTS: dict[Conclusion, str] = {
    "held": "the claim was confirmed, under the assumptions of its author",
    "held if": "it was confirmed while the named condition holds, and not while it is broken",
    "held in part": "one part of it was confirmed, and another was not; the conclusion says which",
    "refuted": "it was not confirmed, under the assumptions of its author",
}
"""The meanings of the conclusions."""
OPENING: Final = """\
[debate.md](debate.md) tells the argument on a page. Here is each claim, in the strength in which its
author made it and under the assumptions that its author states, with scenarios that you can run. Words in
typographic quotation marks are literal words of Redlock's page or of Kleppmann's article; the reply of
Redlock's author is summarised, not quoted."""
TESTED: Final = "what tests it, and the expected outcome"
CLAIMS: Final = {"#": None, "who": None, "claim": 3, TESTED: 4, "conclusion": None}
"""The columns of the table of claims, and the relative widths of some."""


def claim_table(rows: Iterable[ClaimRow]) -> Table:
    """The table of claims for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=True)
    for name, ratio in CLAIMS.items():
        table.add_column(name, overflow="fold", ratio=ratio)
    for row in rows:
        claim = row.claim
        tested = [f"{one.scenario}: {words_of(one)}" for one in row.tested]
        if claim.elsewhere or not tested:
            tested.append(claim.elsewhere or "no scenario yet")
        cells = (str(claim.number), claim.who, claim.claim, "\n".join(tested), claim.verdict)
        table.add_row(*map(Text, cells))
    return table


def words_of(tested: Tested) -> str:
    """The expected outcome of a scenario, in a few words."""
    return verdict_words(tested.outcomes, tested.findings)


def scenario_link(name: str) -> str:
    """A link from a page in ``docs`` to the scenario's file."""
    return f"[{name}](../scenarios/{shipped(name).relative_to(scenario_dir()).as_posix()})"


def claims_page(rows: Iterable[ClaimRow], note: str) -> str:
    """The argument, claim by claim: what was run, the result, and what no run can decide."""
    rows = tuple(rows)
    lines = ["# The argument about Redlock, claim by claim", "", note, ""]
    lines += [OPENING]
    lines += [f"**{word}**: {meaning}." for word, meaning in VERDICTS.items()]
    lines += ["What remains open is named: no run can decide it, and the lab takes no side in it.", ""]
    summary = (
        (
            f"[{one.claim.number}](#claim-{one.claim.number})",
            one.claim.who,
            one.claim.claim,
            one.claim.verdict,
        )
        for one in rows
    )
    lines += [markdown_table(("#", "who", "claim", "conclusion"), summary).rstrip("\n")]
    for row in rows:
        lines += ["", *_claim(row)]
    return "\n".join(lines) + "\n"


def _claim(row: ClaimRow) -> Iterator[str]:
    claim = row.claim
    yield from (f"## Claim {claim.number}", "", f"{claim.who}: {claim.claim}", "")
    for who, words in claim.quoted.items():
        yield from (f"> {who}: {' '.join(f'“{each}”' for each in words)}", "")
    yield f"**Conclusion: {claim.verdict}.** {claim.conclusion}"
    if claim.measured:
        yield from ("", f"Measured: {claim.measured} ([the tables](measurements.md))")
    if claim.open:
        yield from ("", f"No run can decide: {claim.open}")
    if row.tested or claim.libraries:
        yield ""
    for one in row.tested:
        yield f"- {scenario_link(one.scenario)}: {words_of(one)}"
    if claim.libraries:
        links = ", ".join(map(scenario_link, claim.libraries))
        yield f"- in libraries as they are published: {links}"
    if claim.elsewhere:
        yield f"- besides: {claim.elsewhere}"


def implementations_page(rows: Mapping[str, Row], loaded: Mapping[str, LoadedScenario], note: str) -> str:
    """The implementations of Redlock and its relatives: driven, modelled, or why neither."""
    lines = ["# Implementations, and what the lab does with each", "", note, ""]
    lines += [
        "*Driven*: the library itself runs, unmodified, behind a driver (`lab drivers install NAME`).",
        "*Modelled*: its algorithm is a lock of the lab, written after reading its source; what the model",
        "does is a claim about the library that only a run of the library could confirm.",
        "The others are not examined, for the reason that is given. Statements about those are from their",
        "source at the commit that is named, and are no findings of the lab.",
        "",
    ]
    head = ("library", "language", "listed by Redlock's page", "in the lab", "what it is", "scenarios")
    body = (
        (
            f"{row.library} {row.version}".strip(),
            f"{row.language}, {row.registry}",
            "yes" if row.listed else "no",
            _treatment(name, row),
            row.what,
            ", ".join(map(scenario_link, _about(name, row, loaded))) or "none",
        )
        for name, row in rows.items()
    )
    return "\n".join([*lines, markdown_table(head, body)])


def _treatment(name: str, row: Row) -> str:
    if not row.unavailable:
        return f"driven: `{PREFIX}{name}`"
    if row.modelled:
        return f"modelled: `{row.modelled}`; not driven: {row.unavailable}"
    return f"not examined; it would take {row.unavailable}"


def _about(name: str, row: Row, loaded: Mapping[str, LoadedScenario]) -> Iterator[str]:
    locks = {f"{PREFIX}{name}", row.modelled} - {""}
    for scenario, one in loaded.items():
        if one.scenario.lock.name in locks:
            yield scenario
