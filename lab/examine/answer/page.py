"""An examination as a page: one file with everything in it, no script, and no request."""

from __future__ import annotations

import base64
import os
from typing import Any
from urllib.parse import quote

from lab.errors import ExitCode
from lab.examine.answer.words import (
    code_words,
    defect_words,
    headline,
    limit_words,
    not_finished,
    not_found,
    not_tried,
    part_rows,
    spent,
    undecided,
)
from lab.examine.result import RESULT, Kept
from lab.report.page.assets import asset, sha256, template
from lab.report.timeline.words import clean

WORDS_MAX = 600
"""How many characters of a sentence are shown that holds words of the lock's own."""


def to_html(kept: Kept) -> str:
    """The page of an examination whose other files are in the same directory."""
    examined = kept.examined
    style = asset("page.css") + asset("examined.css")
    mood = {ExitCode.EXPECTED: "fine", ExitCode.UNEXPECTED: "bad"}.get(examined.exit_code, "doubt")
    return template("examined.html.jinja").render(
        lock=clean(examined.lock, 120),
        headline=clean(headline(examined), WORDS_MAX),
        mood=mood,
        spent=spent(examined),
        not_finished=[clean(line, WORDS_MAX) for line in not_finished(examined)],
        kind=examined.kind,
        promise=examined.promise,
        reference=examined.reference,
        facts=[(name, clean(value, WORDS_MAX)) for name, value in examined.profile.items()],
        defects=[_defect(kept, number) for number in range(1, len(examined.bugs) + 1)],
        limits=limit_words(examined),
        parts=part_rows(examined),
        undecided=_undecided(kept),
        code=[clean(line, WORDS_MAX) for line in code_words(examined)],
        not_found=not_found(examined),
        not_tried=[clean(line, WORDS_MAX) for line in not_tried(examined)],
        result=RESULT,
        style=style,
        style_hash=sha256(style),
    )


def _undecided(kept: Kept) -> list[dict[str, Any]]:
    examined = kept.examined
    return [
        {
            "seen": clean(words.seen, WORDS_MAX),
            "schedule": [clean(line, WORDS_MAX) for line in words.schedule],
            "command": words.replay,
            "link": _link(each.trial_file, kept),
        }
        for each, words in zip(examined.undecided, undecided(examined), strict=True)
    ]


def _link(path: str | None, kept: Kept) -> str | None:
    """A file's address on the page."""
    return None if path is None else quote(os.path.relpath(path, kept.directory))


def _defect(kept: Kept, number: int) -> dict[str, Any]:
    defect = kept.examined.defects[number - 1]
    words = defect_words(defect, kept.examined.reference, kept.examined.consequences(number))
    picture = kept.pictures.get(number)
    return {
        "number": number,
        "title": words.title,
        "key": words.key,
        "seen": clean(words.seen, WORDS_MAX),
        "rule": words.rule,
        "code": [clean(line, WORDS_MAX) for line in words.code],
        "also_seen": [clean(line, 2 * WORDS_MAX) for line in words.also_seen],
        "leads_to": clean(words.leads_to, WORDS_MAX),
        "evidence": [clean(line, WORDS_MAX) for line in words.evidence],
        "also": words.also,
        "reproduced": words.reproduced,
        "reference": words.reference,
        "right": words.right,
        "source": words.source,
        "schedule": [clean(line, WORDS_MAX) for line in words.schedule],
        "happened": [clean(line, WORDS_MAX) for line in words.happened],
        "found": words.found,
        "kept": clean(words.kept, WORDS_MAX),
        "confirmed": clean(words.confirmed, WORDS_MAX),
        "commands": [command for command in (words.replay, words.real) if command],
        "link": _link(defect.scenario or defect.trial_file, kept),
        "seed": defect.trial.seed,
        "assumptions": words.assumptions,
        "picture": None if picture is None else base64.b64encode(picture).decode(),
    }
