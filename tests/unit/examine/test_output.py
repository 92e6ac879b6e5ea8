"""The answer of ``lab test`` as text, page, JSON and JUnit, from results that are made by hand."""

from __future__ import annotations

import io
import re
from html import unescape
from pathlib import Path

import msgspec
import pytest
from junitparser import JUnitXml
from msgspec.structs import replace
from rich.console import Console

from lab.cli.examine_output import print_examined, progress_line
from lab.errors import ExitCode, LabError
from lab.examine.answer.junit import junit
from lab.examine.answer.keep import keep
from lab.examine.answer.narrative import schedule_words
from lab.examine.answer.page import to_html
from lab.examine.answer.words import SOUGHT, explain, headline, meaning, not_found, not_tried, undecided
from lab.examine.command import parse_options
from lab.examine.examination import Progress
from lab.examine.kinds import LIMITS, SEMAPHORE, SENTENCES
from lab.examine.ledger.naming import CATALOGUE
from lab.examine.result import (
    NO_TIME,
    RESULT,
    Defect,
    Directed,
    Examined,
    Kept,
    Limit,
    Lines,
    LockExecuted,
    Part,
    Undecided,
    decode,
    directory_for,
)
from lab.examine.schedules.plan import BEYOND, DRAWN, NAMES, PAIRS, SINGLES
from lab.faults.cut import Cut
from lab.faults.jump import Jump
from lab.scenario.tracks import Timed
from lab.scenario.triggers import at_start, on
from lab.search.faults import BY_NAME, KINDS, Kind, timed_fault
from lab.search.replay import read_trial
from lab.search.sentences import fault_words
from lab.search.trial import Round, Trial, from_a_file

S_NS = 10**9
NASTY = "evil:<img src=x onerror=alert(1)>&\"'"
TRIAL = Trial(
    "my_lock:MyLock",
    {"alice": (Round(0, S_NS),), "bob": (Round(S_NS // 2, S_NS, extends=2, ends="twice"),)},
    (timed_fault(Cut, on("alice", "sends", 2, 1_500_000), "alice", ("D", "E"), direction="replies"),),
)


def defect(cause: str = "deletes-others-key", **more: object) -> Defect:
    made = Defect(
        cause,
        "alice's release at 212 ms deleted bob's key on B: DEL without comparing the token",
        ("overlap", "lost-update"),
        "alice and bob both held 'resource' for at least 1.3 s",
        ("alice: guaranteed until 2.00 s · bob: acquired at 0.70 s",),
        TRIAL,
        19,
        20,
        0,
        NAMES,
        68,
        0.3,
    )
    return replace(made, **more)


def examined(*defects: Defect, **more: object) -> Examined:
    limits = (
        Limit("overlap", "a node's clock jumps", 3, "both held it", TRIAL),
        Limit("lost-update", "a node's clock jumps", 2, "an update was lost", TRIAL),
        Limit("unavailable", "a client is paused", 1, "nobody got it", TRIAL),
    )
    made = Examined(
        "my_lock:MyLock",
        "a lock on a majority of independent nodes",
        "one holder at a time",
        "redlock",
        {"nodes asked": "A, B, C, D, E"},
        defects,
        limits,
        (Part(NAMES, "ten programs", 132, 132), Part(BEYOND, "directed", 12, 342)),
        ("what the lock does with a key of 600 MB: the model has no such node",),
        51,
        7,
        12_431,
        118.2,
        directed=Directed(171, 171, 20.0, 22.5),
        grants=20_000,
        budget_s=120.0,
        spent_s=117.4,
    )
    return replace(made, **more)


def printed(result: Examined, width: int = 80) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, emoji=False, highlight=False, soft_wrap=True)
    print_examined(console, Kept(result, Path("reports/test-x")))
    return out.getvalue()


def section(text: str, name: str) -> str:
    return re.split(r"\n\n(?=[A-Z])", text.split(f"\n{name}", 1)[1], maxsplit=1)[0]


@pytest.mark.parametrize(
    ("result", "words", "code"),
    [
        (examined(), "no defect found in my_lock:MyLock in 12,431 schedules", 0),
        (examined(defect()), "1 defect in my_lock:MyLock, compared with redlock", 1),
        (examined(defect(), defect("hangs")), "2 defects in my_lock:MyLock, compared with redlock", 1),
        (examined(schedules=0), "my_lock:MyLock was not examined: no schedule was tried", 3),
        (examined(interrupted=True), "interrupted: no defect found in my_lock:MyLock in 12,431 schedules", 3),
        (
            examined(directed=Directed(12, 171, 80.4, 160.0)),
            "not known whether my_lock:MyLock has a defect: "
            "only 12 of 171 situations of its directed part were tried",
            3,
        ),
        (
            examined(directed=Directed()),
            "not known whether my_lock:MyLock has a defect: "
            "only 0 situations of its directed part were tried",
            3,
        ),
        (
            examined(grants=0),
            "not known whether my_lock:MyLock has a defect: no client was granted the lock in any schedule",
            3,
        ),
        (
            examined(defect(), grants=0),
            "1 defect in my_lock:MyLock, compared with redlock; no client was ever granted the lock",
            1,
        ),
        (
            examined(failed=("a schedule with 'leak' could not be looked into: a TTL of 1500 ms",)),
            "not known whether my_lock:MyLock has a defect: a schedule with 'leak' could not be looked into: "
            "a TTL of 1500 ms",
            3,
        ),
        (
            examined(undecided=(Undecided("leak", NO_TIME, 1, TRIAL),)),
            f"not known whether my_lock:MyLock has a defect: 'leak' was seen, and {NO_TIME}",
            3,
        ),
    ],
)
def test_the_answer_in_one_sentence_and_its_exit_code(result: Examined, words: str, code: int) -> None:
    assert headline(result) == words
    assert printed(result).splitlines()[0] == words
    assert result.exit_code == code


@pytest.mark.parametrize(
    ("strict", "seen", "code"), [(False, True, 0), (True, True, 1), (True, False, 0), (False, False, 0)]
)
def test_what_is_not_decided_fails_if_it_is_to_be_strict(strict: bool, seen: bool, code: int) -> None:
    undecided = (Undecided("leak", "only 3 of 20 variants show it", 1, TRIAL),) if seen else ()
    assert examined(undecided=undecided, strict=strict).exit_code == code


def test_what_is_not_finished_is_said_with_how_long_it_takes() -> None:
    cut_short = examined(directed=Directed(12, 171, 80.4, 160.0), failed=("the trial could not be run",))
    text = " ".join(printed(cut_short).split())
    assert "12 of 171 situations were tried; all of them take about 160 s on this machine" in text
    assert "--budget 130s or more" in text
    assert "the trial could not be run" in text
    assert "12 of 171 situations" in to_html(Kept(cut_short, Path("reports/test-x")))
    assert cases(cut_short)["examination"] == "Error"
    assert "situations" not in " ".join(printed(examined()).split()).partition("WHAT IT IS")[0]


def test_nothing_is_said_to_be_not_found_where_nothing_was_tried() -> None:
    assert not_found(examined(schedules=0)) == []
    assert "WHAT WAS NOT FOUND" not in printed(examined(schedules=0))


def test_a_defect_is_explained_from_its_cause_to_its_repair() -> None:
    reported = " ".join(section(printed(examined(defect(scenario="out/defect-1.yaml"))), "DEFECTS").split())
    kind = CATALOGUE["deletes-others-key"]
    for words in (
        f"1. {kind.what}",
        "Alice's release at 212 ms deleted bob's key on B: DEL without comparing the token",
        "Alice and bob both held 'resource' for at least 1.3 s",
        "alice: guaranteed until 2.00 s",
        "lost-update (two writes were based on one version)",
        "in 19 of 20 variants",
        "redlock in the same 20 schedules: never fails",
        kind.right,
        f"source: {kind.source}",
        "Fault: the replies of D and E to Alice are lost for good, 1.5ms after Alice sends to nodes for the "
        "second time.",
        "lab test --replay out/defect-1.yaml",
        "lab run out/defect-1.yaml --on local",
    ):
        assert words in reported


def test_a_trial_is_replayed_but_not_run_on_redis() -> None:
    reported = section(printed(examined(defect(trial_file="out/defect-1.json"))), "DEFECTS")
    assert "lab test --replay out/defect-1.json" in reported
    assert "lab run" not in reported


def test_a_reference_that_fails_as_well_is_not_hidden() -> None:
    assert "redlock in the same 20 schedules: fails in 3" in printed(examined(defect(reference_lost=3)))


def test_limits_stand_apart_from_defects_each_once_with_its_reason() -> None:
    text = printed(examined())
    reported = " ".join(section(text, "KNOWN LIMITS").split())
    assert "redlock has them as well" in reported
    assert reported.count("a node's clock jumps:") == 1
    assert SENTENCES["a node's clock jumps"] in reported
    assert "overlap: two clients certainly held the lock at once, in 3 schedules" in reported
    assert "the key of a client whose release is late is kept until it expires" in reported
    found = printed(examined(defect()))
    assert "in 3 schedules" not in section(found, "DEFECTS")
    short = " ".join(section(found, "KNOWN LIMITS").split())
    assert "- a node's clock jumps: lost-update, overlap" in short
    assert SENTENCES["a node's clock jumps"] not in short, "where there are defects it is on the page"


def test_what_was_tried_and_what_was_not() -> None:
    text = printed(examined(parts=(*examined().parts, Part(DRAWN, "at random"))))
    tried = section(text, "WHAT WAS TRIED")
    assert re.search(rf"all 132 +{NAMES}", tried)
    assert re.search(rf"12 of 342 +{BEYOND}", tried)
    assert DRAWN not in tried, "a part of which nothing was tried was not tried"
    missing = not_tried(examined())
    assert f"{BEYOND}: 330 of 342 are left" in missing
    assert f"{SINGLES}: not begun" in missing
    assert any("600 MB" in line for line in missing)
    assert not any(line.startswith(NAMES) for line in missing)
    begun = not_tried(examined(parts=(Part(f"{PAIRS}: late", "", 7), Part(f"{PAIRS}: at once", "", 7, 7))))
    assert [line for line in begun if line.startswith(PAIRS)] == [f"{PAIRS}: late: not all of them"]


def test_what_was_not_found_leaves_out_what_was() -> None:
    names = {line.partition(":")[0] for line in not_found(examined(defect()))}
    of_others = {"fence-order", "fence-breach", "over-capacity"}
    assert names == set(SOUGHT) - {"overlap", "lost-update", "unavailable", *of_others}
    assert "fence-order" in {
        line.partition(":")[0] for line in not_found(examined(reference="redlock-fenced"))
    }
    of_semaphores = {line.partition(":")[0] for line in not_found(examined(reference=SEMAPHORE))}
    assert "over-capacity" in of_semaphores
    assert not {"overlap", "continuity-loss", "cycle"} & of_semaphores, "the checker does not look for them"


def test_every_finding_and_every_limit_has_words() -> None:
    assert [name for name in SOUGHT if meaning(name) == name] == []
    assert {assumption for broken in LIMITS.values() for assumption in broken} <= set(SENTENCES)


@pytest.mark.parametrize("width", [80, 200])
def test_it_fits_and_has_no_colour_in_a_file(width: int) -> None:
    text = printed(examined(defect(scenario="reports/test-x/defect-1.yaml"), defect("unknown")), width)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= min(width, 100)


def test_words_of_a_lock_cannot_command_the_terminal() -> None:
    hostile = defect(seen="alice's acquire raised \x1b[2J\x07 [bold]x[/bold]")
    text = printed(examined(hostile, lock="evil:\x1b[31mLock"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]x[/bold]" in text


def test_the_progress_says_how_far_it_is() -> None:
    at = Progress(1234, 5.4, DRAWN, found=[defect()])
    assert progress_line(at) == f"1,234 schedules, 5 s, 1 defect · {DRAWN}"


def test_the_data_are_read_back_as_they_were() -> None:
    result = examined(defect(), defect("hangs", trial_file="x.json"))
    data = result.to_json()
    assert decode(data) == result
    plain = msgspec.json.decode(data)
    assert plain["exit_code"] == 1
    assert [part["exhausted"] for part in plain["parts"]] == [True, False]


def cases(result: Examined) -> dict[str, str]:
    """Name → what came of it: "Failure", "Error" or nothing."""
    (suite,) = JUnitXml.fromstring(junit(result))
    return {case.name: ", ".join(type(one).__name__ for one in case.result) for case in suite}


def test_junit_has_a_failure_for_each_cause_and_a_pass_for_each_part() -> None:
    assert cases(examined(defect(), defect("hangs"))) == {
        "deletes-others-key": "Failure",
        "hangs": "Failure",
        NAMES: "",
        BEYOND: "",
    }
    assert cases(examined()) == {NAMES: "", BEYOND: ""}


def test_junit_keeps_two_defects_without_a_known_cause_apart() -> None:
    assert {"unknown", "unknown 2"} <= set(cases(examined(defect("unknown"), defect("unknown"))))


def test_junit_shows_no_pass_for_what_was_not_examined() -> None:
    assert cases(examined(interrupted=True))["examination"] == "Error"
    assert cases(examined(schedules=0, parts=()))["examination"] == "Error"


def test_junit_takes_what_no_xml_may_hold() -> None:
    document = junit(examined(defect(seen="\x00 <b> & \x1b"), lock=NASTY))
    (suite,) = JUnitXml.fromstring(document)
    assert suite.name == f"lab test {NASTY}"


def test_the_page_escapes_what_locks_say_and_asks_for_nothing() -> None:
    hostile = defect(
        seen=f"saw {NASTY}", evidence=(NASTY,), trial=replace(TRIAL, lock=NASTY, options={"x": NASTY})
    )
    kept = Kept(examined(hostile, lock=NASTY, profile={"asks": NASTY}), Path("out"), {1: b"\x89PNG"})
    html = to_html(kept)
    assert "<img src=x" not in html
    assert html.count("evil:&lt;img src=x onerror=alert(1)&gt;&amp;&#34;&#39;") >= 5
    assert "<script" not in html
    assert "default-src 'none'; img-src data:;" in html
    assert re.findall(r'(?:src|href)="(?!data:image/png;base64,)([^"]*)"', html) == [RESULT]
    assert "data:image/png;base64,iVBORw==" in html


def test_the_page_says_what_the_terminal_says() -> None:
    html = to_html(Kept(examined(defect(scenario="out/defect-1.yaml")), Path("out")))
    for words in ("1 defect in my_lock:MyLock", CATALOGUE["deletes-others-key"].what, "all 132", "not begun"):
        assert words in html
    assert 'href="defect-1.yaml"' in html


def test_page_and_text_open_with_the_defects_and_fold_the_profile_away() -> None:
    profile = {f"question {at}": f"answer {at}" for at in range(26)}
    result = examined(defect(scenario="out/defect-1.yaml", trial=TRIAL), profile=profile)
    page = to_html(Kept(result, Path("out"), {1: b"\x89PNG"}))
    kind = CATALOGUE["deletes-others-key"]
    parts = (kind.what, "<figure>", kind.right, "lab test --replay", "What it is", "<details>", "answer 0")
    assert [page.index(part) for part in parts] == sorted(page.index(part) for part in parts)
    assert page.index("answer 25") < page.index("</details>")
    text, without = printed(result), printed(examined(profile=profile))
    for folded in ("WHAT IT IS", "THE CODE OF THE LOCK", "WHAT WAS NOT FOUND"):
        assert folded in without
        assert folded not in text
        assert folded.capitalize() in page
    assert "26 answers on reports/test-x/index.html" in " ".join(without.split())
    assert "answer 0" not in without


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ((), "within the assumptions of the lock's kind"),
        (
            (timed_fault(Jump, at_start(), "", ("A",), by_ns=S_NS),),
            "an assumption of the lock's kind is broken: a node's clock jumps",
        ),
    ],
)
def test_all_forms_say_the_same_of_the_assumptions(faults: tuple[Timed, ...], words: str) -> None:
    result = examined(defect(trial=replace(TRIAL, faults=faults)))
    assert words in " ".join(printed(result).split())
    assert words in unescape(to_html(Kept(result, Path("out"))))
    assert words in unescape(junit(result).decode())
    (stored,) = msgspec.json.decode(result.to_json())["defects"]
    assert all(name in words for name in stored["broken_assumptions"])
    assert bool(stored["broken_assumptions"]) == bool(faults)


def test_files_of_an_earlier_examination_are_not_taken_for_new(tmp_path: Path) -> None:
    one = examined(defect(), defect("hangs"), interrupted=True)
    assert [each.trial_file for each in keep(one, tmp_path, command="lab test").examined.defects] == [
        str(tmp_path / "defect-1.json"),
        str(tmp_path / "defect-2.json"),
    ]
    (tmp_path / "defect-3.json").write_text("somebody else's")
    keep(examined(defect(), interrupted=True), tmp_path, command="lab test")
    assert {path.name for path in tmp_path.iterdir()} == {
        "defect-1.json",
        "defect-3.json",
        "index.html",
        RESULT,
    }


def test_a_directory_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError) as caught:
        keep(examined(), tmp_path / "file", command="lab test")
    assert caught.value.exit_code == ExitCode.USAGE
    assert "--out" in caught.value.render()


def test_directories_of_several_locks_and_seeds_do_not_collide() -> None:
    names = {
        directory_for(lock, seed).name for lock in ("redlock", "my.lock:A", "my.lock:B") for seed in (0, 1)
    }
    assert len(names) == 6
    assert directory_for("./driver ../x", 0).parent == Path("reports")


def test_the_message_of_a_failed_test_names_cause_repair_and_replay() -> None:
    text = explain(examined(defect(scenario="out/defect-1.yaml")))
    for words in (CATALOGUE["deletes-others-key"].right, "lab test --replay out/defect-1.yaml", "1 defect"):
        assert words in text


@pytest.mark.parametrize("kind", KINDS, ids=BY_NAME)
def test_every_kind_of_fault_has_words(kind: Kind) -> None:
    fault = timed_fault(kind, on("bob", "granted"), "alice", ("C",), by_ns=S_NS, lasts_ns=2 * S_NS, ppm=8000)
    words = fault_words(fault)
    assert words.endswith("as Bob is granted the lock for the first time")
    assert "Alice" in words or "C " in words


def test_a_schedule_says_who_does_what() -> None:
    assert schedule_words(TRIAL)[:3] == (
        "5 nodes, TTL 10s",
        "Alice acquires, holds it for 1s, writes, releases.",
        "Bob waits 0.5s, acquires, holds it for 1s, extends 2 times meanwhile, writes, releases twice.",
    )


def test_a_schedule_says_that_a_client_takes_another_lock() -> None:
    both = replace(TRIAL, clients={"alice": (Round(0, S_NS, other=True),)}, faults=())
    assert schedule_words(both)[1] == (
        "Alice acquires, holds it for 1s, takes another lock as well meanwhile, writes, releases."
    )
    shorter = replace(TRIAL, clients={"alice": (Round(0, S_NS, 1, ttl_ns=S_NS, extend_ttl_ns=2 * S_NS),)})
    assert "acquires it for 1s, holds it for 1s, extends once meanwhile for 2s," in schedule_words(shorter)[1]


def test_a_client_that_only_asks_until_it_is_granted_does_something() -> None:
    asks = replace(TRIAL, clients={"alice": ()}, faults=(), demand_ns=5 * S_NS)
    assert schedule_words(asks) == (
        "5 nodes, TTL 10s",
        "Alice asks again and again until it is granted, for 5s at most.",
    )
    assert "Alice does nothing." in schedule_words(replace(asks, demand_ns=0))


def test_options_have_the_types_that_scenarios_give_them() -> None:
    found = parse_options("redlock", ["retry_count=3", "node_timeout=100ms", "drift_factor=0.02"])
    assert found == (("retry_count", 3), ("node_timeout", "100ms"), ("drift_factor", 0.02))


@pytest.mark.parametrize(
    "setting", ["retry_count", "retry_count=x", "no_such=1", "lock.ttl=2s", "retry_count=[1]"]
)
def test_an_option_that_cannot_be_is_refused(setting: str) -> None:
    with pytest.raises(LabError) as caught:
        parse_options("redlock", [setting])
    assert caught.value.exit_code == ExitCode.USAGE


def test_what_is_not_decided_is_said_and_counts_as_seen() -> None:
    open_question = Undecided("leak", "only 3 of 20 variants show it", 2, TRIAL)
    result = examined(undecided=(open_question,))
    line = undecided(result)[0].seen
    assert headline(result).endswith("schedules; 1 finding not decided, see below")
    assert line.startswith("leak: ")
    assert line.endswith(", in 2 schedules; only 3 of 20 variants show it")
    assert " ".join(line.split()) in " ".join(section(printed(result), "NOT DECIDED").split())
    assert "NOT DECIDED" not in printed(examined())
    assert any(each.startswith("leak:") for each in not_found(examined()))
    assert not any(each.startswith("leak:") for each in not_found(result))
    assert result.exit_code == 0
    assert decode(result.to_json()).undecided == (open_question,)


def test_what_is_not_decided_has_a_file_its_schedule_and_the_command_that_replays_it(tmp_path: Path) -> None:
    trials = TRIAL, replace(TRIAL, lock="redlock", faults=())
    open_ = [Undecided("leak", f"reason {at}", 1, each) for at, each in enumerate(trials)]
    kept = keep(examined(undecided=tuple(open_), interrupted=True), tmp_path, command="lab test")
    files = [tmp_path / "undecided-1.json", tmp_path / "undecided-2.json"]
    assert read_trial(files[1]) == trials[1]
    data = msgspec.json.decode((tmp_path / RESULT).read_bytes())["undecided"]
    assert [each["trial_file"] for each in data] == [str(path) for path in files]
    assert msgspec.convert(data[0]["trial"], Trial, dec_hook=from_a_file) == TRIAL
    html, text = kept.page.read_text(), section(printed(kept.examined), "NOT DECIDED")
    for path, words in zip(files, undecided(kept.examined), strict=True):
        assert words.schedule == schedule_words(trials[files.index(path)])
        assert words.replay == f"lab test --replay {path}"
        assert words.replay in " ".join(text.split())
        assert words.replay in html
        assert f'href="{path.name}"' in html
    assert "the replies of D and E to Alice are lost for good" in html
    keep(examined(undecided=(open_[0],), interrupted=True), tmp_path, command="lab test")
    assert [path.exists() for path in files] == [True, False], "none of an earlier examination is left"


def test_what_was_never_executed_is_said() -> None:
    branch = Lines("my_lock.py", 41, 41, "the branch `if reply < 2 & 3`")
    many = (branch, *(Lines("my_lock.py", at, at + 1, "what follows line 7") for at in range(50, 59)))
    result = examined(executed=LockExecuted(90, 71, many))
    told = section(printed(result), "THE CODE OF THE LOCK")
    assert "- 71 of 90 lines executed" in told
    assert "- never executed: my_lock.py:41 (the branch `if reply < 2 & 3`)" in told
    assert "my_lock.py:56-57 (what follows line 7)" in told
    assert "my_lock.py:57-58" not in told
    assert "- and 2 more places that no schedule executed" in told
    assert "my_lock.py:41 (the branch `if reply &lt; 2 &amp; 3`)" in to_html(Kept(result, Path("x")))
    assert decode(result.to_json()).executed == result.executed
    of_driver = examined(executed=LockExecuted(why_not="a driver runs in a process of its own"))
    assert "not known what was executed: a driver runs" in section(printed(of_driver), "THE CODE OF THE LOCK")
