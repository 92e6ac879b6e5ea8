"""What happened to a file after it was written is noticed: no pass of what was changed, in any format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from checker import History, HistoryError, Outcome, check, load, save
from checker.__main__ import main
from checker.formats import edn, jsonl
from checker.history.completeness import Completeness
from checker.history.events import Event
from tests.unit.checker.builder import HistoryBuilder

TEXTS = (".jsonl", ".edn")
ALL = (*TEXTS, ".parquet")
EVERYWHERE = tuple(pytest.param(suffix, marks=pytest.mark.full) for suffix in TEXTS)
"""Where every place of a file is tried: a second or more for each format."""
PASSED = {Outcome.OK, Outcome.ABSENT}


def small() -> History:
    """A history of which most properties are ok, so that a pass can be told from none."""
    builder = (
        HistoryBuilder().acquire("alice", "g1", 0, 10, claimed=900, fence=1).release("alice", "g1", 20, 30)
    )
    return builder.acquire("bob", "g2", 400, 410, claimed=900, fence=2).history()


def written(path: Path) -> bytes:
    if path.suffix == ".parquet":
        pytest.importorskip("polars")
    save(small(), path)
    return path.read_bytes()


def outcomes(history: History) -> set[Outcome]:
    return {verdict.outcome for verdict in check(history).properties.values()}


def judged(path: Path, data: bytes) -> History | None:
    """The history if any property of it passes, else None; it may not be accused in any case."""
    path.write_bytes(data)
    try:
        history = load(path)
    except HistoryError:
        return None
    seen = outcomes(history)
    assert Outcome.VIOLATED not in seen
    return history if seen & PASSED else None


def refuse(path: Path, whole: bytes, changed: Iterator[bytes]) -> None:
    """No changed file passes as whole, unless it says the same as the whole one."""
    path.write_bytes(whole)
    original = load(path)
    assert original.complete is Completeness.WHOLE
    assert outcomes(original) & PASSED
    for data in changed:
        history = judged(path, data)
        if history is not None:
            same = list(history.events()) == list(original.events()) and history.params == original.params
            assert same, (len(data), data[-200:])


def flipped(whole: bytes, step: int = 1) -> Iterator[bytes]:
    """The file with one bit changed; the bit moves on from byte to byte."""
    for at in range(0, len(whole), step):
        data = bytearray(whole)
        data[at] ^= 1 << (at * 5 % 8)
        yield bytes(data)


@pytest.mark.parametrize("suffix", EVERYWHERE)
def test_a_text_cut_anywhere_never_passes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"h{suffix}"
    whole = written(path)
    refuse(path, whole, (whole[:at] for at in range(1, len(whole))))


@pytest.mark.full
@pytest.mark.parametrize("suffix", EVERYWHERE)
def test_a_text_without_its_beginning_never_passes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"h{suffix}"
    whole = written(path)
    refuse(path, whole, (whole[at:] for at in range(1, len(whole))))


@pytest.mark.parametrize("suffix", EVERYWHERE)
def test_a_text_with_a_bit_flipped_anywhere_never_passes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"h{suffix}"
    whole = written(path)
    refuse(path, whole, flipped(whole))


@pytest.mark.parametrize("suffix", TEXTS)
def test_a_line_lost_doubled_or_moved_never_passes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"h{suffix}"
    lines = written(path).splitlines(keepends=True)

    def changed() -> Iterator[bytes]:
        for at in range(len(lines) - 1):
            yield b"".join(lines[:at] + lines[at + 1 :])
            yield b"".join(lines[: at + 1] + lines[at:])
            yield b"".join([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])

    refuse(path, b"".join(lines), changed())


@pytest.mark.full
def test_parquet_cut_or_flipped_never_passes(tmp_path: Path) -> None:
    """Every file is refused before polars sees it, or, without its digest, read by another process."""
    path = tmp_path / "h.parquet"
    whole = written(path)
    refuse(path, whole, flipped(whole, 7))
    mark = whole.index(b"lock-lab.sha256")
    refuse(path, whole, iter([whole[:mark] + b"L" + whole[mark + 1 :], whole[:-1], whole[:200], whole[200:]]))


def test_a_changed_history_is_an_error_that_says_so(tmp_path: Path) -> None:
    for suffix in ALL:
        path = tmp_path / f"h{suffix}"
        whole = written(path)
        at = whole.index(b"alice") if suffix in TEXTS else 200
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 2]) + whole[at + 1 :])
        with pytest.raises(HistoryError, match="was changed after it was written") as caught:
            load(path)
        assert caught.value.hint


def test_a_count_that_does_not_fit_is_told(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2] + lines[-1:]))
    with pytest.raises(HistoryError, match="the footer counts 6 events, the file holds 5"):
        load(path)


@pytest.mark.parametrize("suffix", TEXTS)
def test_an_end_without_a_beginning_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"h{suffix}"
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(HistoryError, match="beginning") as caught:
        load(path)
    assert caught.value.line == len(lines) - 1


@pytest.mark.parametrize("suffix", TEXTS)
def test_without_header_and_footer_a_history_is_judged_under_a_condition(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"h{suffix}"
    path.write_bytes(b"".join(written(path).splitlines(keepends=True)[1:-1]))
    history = load(path)
    assert history.complete is Completeness.NOT_KNOWN
    verdict = check(history)
    passed = [one for one in verdict.properties.values() if one.outcome in PASSED]
    assert passed
    assert all(one.why.startswith("if the record is complete: ") for one in passed)
    assert any("whether the record is complete is not known" in remark for remark in verdict.remarks)


def test_a_log_is_judged_under_a_condition(tmp_path: Path) -> None:
    path = tmp_path / "h.log"
    path.write_text("INFO  jepsen.util - 0\t:invoke\t:write\t1\nINFO  jepsen.util - 0\t:ok\t:write\t1\n")
    assert check(load(path))["resource"].why.startswith("if the record is complete: ")


def test_what_was_made_in_memory_is_whole_and_says_nothing_of_it() -> None:
    verdict = check(small())
    assert small().complete is Completeness.WHOLE
    assert not any("complete" in one.why for one in verdict.properties.values())
    assert not any("complete" in remark for remark in verdict.remarks)


def test_a_footer_of_an_earlier_version_counts_and_is_judged_as_before() -> None:
    lines = [jsonl.event_line(event, i) for i, event in enumerate(small().events())]
    text = jsonl.header_line(small().params) + b"".join(lines) + jsonl.footer_line(len(lines))
    history = jsonl.parse(text)
    assert history.complete is Completeness.COUNTED
    assert check(history).to_dict() == check(small()).to_dict()


@pytest.mark.parametrize("through", ALL)
@pytest.mark.parametrize("complete", Completeness)
def test_saving_does_not_make_a_history_complete(
    tmp_path: Path, through: str, complete: Completeness
) -> None:
    if through == ".parquet":
        pytest.importorskip("polars")
    history = History.from_events(small().events(), small().params, complete=complete)
    save(history, tmp_path / f"h{through}")
    assert load(tmp_path / f"h{through}").complete is complete


@pytest.mark.parametrize("one", ALL)
@pytest.mark.parametrize("other", ALL)
def test_any_format_becomes_any_other(
    tmp_path: Path, one: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if ".parquet" in (one, other):
        pytest.importorskip("polars")
    source, made = tmp_path / f"a{one}", tmp_path / f"b{other}"
    save(small(), source)
    assert main([str(source), "--save", str(made)]) == 0
    assert check(load(made)).to_dict() == check(small()).to_dict()
    assert load(made).params == small().params
    assert capsys.readouterr().err == ""
    assert main([str(source), "--save", str(tmp_path / "no" / "such" / "place.jsonl")]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ALL)
def test_what_is_known_to_be_damaged_stays_so_in_every_format(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("polars")
    history = History.from_events(small().events(), small().params, problems=["the end is missing"])
    save(history, tmp_path / f"h{suffix}")
    assert not outcomes(load(tmp_path / f"h{suffix}")) & PASSED


MAP = "{:process 0, :type %s, :f :acquire, :index %d}\n"


@pytest.mark.parametrize("indices", [(0, 2), (1, 2), (1, 0), (0, 0)])
def test_a_gap_in_the_numbers_of_another_tool_is_a_problem(indices: tuple[int, int]) -> None:
    """The numbers were overwritten, so that a line that was lost left no trace."""
    history = edn.parse(MAP % (":invoke", indices[0]) + MAP % (":ok", indices[1]))
    assert "events are missing or out of order" in history.problems[0]
    assert not outcomes(history) & PASSED
    assert edn.parse(MAP % (":invoke", 0) + MAP % (":ok", 1)).problems == ()


def test_a_history_of_nothing_keeps_its_ends(tmp_path: Path) -> None:
    for suffix in TEXTS:
        save(History.from_events([]), tmp_path / f"h{suffix}")
        assert load(tmp_path / f"h{suffix}").complete is Completeness.WHOLE


def test_a_digest_of_another_kind_is_no_digest(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(written(path).replace(b'"sha256:', b'"md5:'))
    with pytest.raises(HistoryError, match="digest"):
        load(path)


def test_text_after_the_footer_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(
        written(path) + jsonl.event_line(Event(time_ns=1, process="a", type="invoke", f="read"), 6)
    )
    with pytest.raises(HistoryError):
        load(path)
