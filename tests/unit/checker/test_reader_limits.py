"""Limits on what is read, and what the live form says of lines that it cannot read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from checker import formats
from checker.errors import HistoryError
from checker.history.operations import NEVER, F, Status
from checker.linearizability.custom import Operation, load_model
from checker.live.command import follow
from checker.properties.linearizable import with_deaths
from tests.unit.checker.builder import MS, HistoryBuilder


def small() -> HistoryBuilder:
    return HistoryBuilder().acquire("alice", "g", 0, 1)


@pytest.mark.parametrize(
    ("limit", "name", "refused"),
    [
        ("UNPACKED_MAX", "h.jsonl.gz", True),
        ("UNPACKED_MAX", "h.jsonl", False),
        ("UNPACKED_MAX", "h.edn", False),
        ("LINES_MAX", "h.jsonl", True),
        ("TREE_MAX", "h.jsonl", False),
        ("TREE_MAX", "h.edn", True),
        ("TREE_MAX", "h.edn.gz", True),
    ],
)
def test_each_kind_of_file_has_its_limit(
    limit: str, name: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / name.removesuffix(".gz")
    formats.save(small().history(), plain)
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(plain.read_bytes()))
    monkeypatch.setattr(formats, limit, 50)
    if not refused:
        assert len(formats.load(tmp_path / name).ops) == 1
        return
    with pytest.raises(HistoryError, match="50"):
        formats.load(tmp_path / name)


def test_what_may_not_be_read_is_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "h.jsonl"
    file.write_bytes(small().text())

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(formats, "_loaded", refuse)
    with pytest.raises(HistoryError) as caught:
        formats.load(file)
    assert (caught.value.problem, caught.value.hint) == (
        "cannot be read: permission denied",
        "`ls -l` shows who may read it",
    )

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(formats, "_loaded", fail)
    with pytest.raises(HistoryError) as caught:
        formats.load(file)
    assert caught.value.hint is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"nonsense\n", ":3: saw nonsense, expected one JSON object per line"),
        (b'{"time_ns":1,"process":"a","type":"ok","f":"x","k":1}\n', ":3: field 'k': no such field"),
        (b'{"end":1}\n', ":3: field 'end': no such field"),
        (b"[]\n", ":3: saw []"),
    ],
)
def test_the_live_form_names_the_line_that_it_cannot_read(
    line: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, first, *_ = small().text().splitlines(keepends=True)
    file = tmp_path / "h.jsonl"
    file.write_bytes(head + first + line + line)
    assert follow([str(file)]) == 2
    assert said in capsys.readouterr().err


def test_blank_lines_are_no_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, *rest = small().text().splitlines(keepends=True)
    file = tmp_path / "h.jsonl"
    file.write_bytes(head + b"\n  \n".join(rest))
    assert follow([str(file)]) == 3
    assert "judged live, 2 events" in capsys.readouterr().out


def test_a_client_that_dies_ends_each_lock_that_it_held() -> None:
    builder = HistoryBuilder(clients=["alice", "bob"])
    builder.op("alice", "acquire", 0, 1, key="k").op("alice", "acquire", 2, 3, key="l")
    builder.op("alice", "acquire", 4, 5, key="m").op("alice", "release", 6, 7, key="m")
    builder.op("alice", "acquire", 8, 9, "fail", key="n").op("bob", "acquire", 10, 11, key="o")
    builder.op("alice/2", "acquire", 30, 31, key="p")
    ops = builder.history().ops
    alice = ops.names.client.index("alice")
    whole = with_deaths(ops, [(alice, 20 * MS)])
    added = [
        (ops.names.key[whole.key[row]], int(whole.f[row]), int(whole.status[row]), int(whole.call_ns[row]))
        for row in range(len(ops), len(whole))
    ]
    assert added == [("k", F.RELEASE, Status.INFO, 20 * MS), ("l", F.RELEASE, Status.INFO, 20 * MS)]
    assert whole.return_ns[len(ops) :].tolist() == [NEVER, NEVER]
    assert {ops.names.process[p] for p in whole.process[len(ops) :].tolist()} == {"alice"}
    assert whole.call_index[len(ops) :].tolist() == [14, 15]
    assert with_deaths(ops, [(alice, -1)]) is ops


ADAPTED = """
class Counter:
    looks_at_failures = True

    def init(self):
        return 3

    def step(self, state, operation):
        return state + operation.input

    def partition(self, operation):
        return operation.process


class Bare:
    def init(self):
        return None

    def step(self, state, operation):
        return state
"""


def test_a_class_that_has_the_methods_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "adapted_for_this_test.py").write_text(ADAPTED)
    monkeypatch.chdir(tmp_path)
    operation = Operation("p", "add", 0, 1, input=4, key="k")
    counter, bare = (load_model(f"adapted_for_this_test:{name}") for name in ("Counter", "Bare"))
    assert (counter.init(), counter.step(3, operation), counter.partition(operation)) == (3, 7, "p")
    assert (counter.looks_at_failures, bare.looks_at_failures) == (True, False)
    assert (bare.init(), bare.partition(operation)) == (None, "k")
