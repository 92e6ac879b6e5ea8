"""Jepsen's log lines in."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker.errors import HistoryError
from checker.formats import jepsen_log, load
from checker.linearizability import Assumptions, check_linearizability

LOG = """INFO  jepsen.core - Worker 0 starting
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 1   :invoke :write  3
2015-02-04 11:00:01 INFO jepsen.util - 0 :ok :read nil

INFO  jepsen.util - 1\t:ok\t:write\t3
INFO  jepsen.util - :nemesis\t:info\t:start\tnil
INFO  jepsen.util - 0\t:invoke\t:cas\t[3 4]
INFO  jepsen.util - 1\t:invoke\t:cas\t[2 4]
INFO  jepsen.util - 1\t:fail\t:cas\t[2 4]
INFO  jepsen.util - 0\t:info\t:cas\t:timed-out
INFO  jepsen.util - 1\t:invoke\t:read\tnil
INFO  jepsen.util - 1\t:fail\t:read\t:timed-out
"""


def test_lines_become_operations(tmp_path: Path) -> None:
    path = tmp_path / "etcd.log"
    path.write_text(LOG)
    history = load(path)
    ops = history.ops
    codes = [(int(ops.f[row]), int(ops.status[row])) for row in range(len(ops))]
    reported = [
        (ops.name("process", row), *codes[row], ops.name("value", row), ops.name("error", row))
        for row in range(len(ops))
    ]
    assert reported == [
        ("0", 4, 0, "nil", None),
        ("1", 5, 0, 3, None),
        ("0", 6, 2, (3, 4), "timed-out"),
        ("1", 6, 1, (2, 4), "mismatch, as it seems"),
        ("1", 4, 1, None, "timed-out"),
    ]
    assert int(ops.call_ns[0]) == 2_000_000_000  # line 2
    assert [r.outcome for r in check_linearizability(ops, "cas-register")] == ["ok"]


WROTE = "0 :invoke :write 3\n0 :ok :write 3\n"


@pytest.mark.parametrize(
    ("lines", "outcome", "absent_at_first"),
    [
        ("0 :invoke :read nil\n0 :ok :read 3", "ok", "violated"),
        ("0 :invoke :read nil\n0 :ok :read nil", "ok", "ok"),
        ("0 :invoke :cas [3 4]\n0 :ok :cas [3 4]", "ok", "violated"),
        (WROTE + "0 :invoke :read nil\n0 :ok :read nil", "unknown", "violated"),
        (WROTE + "0 :invoke :cas [3 4]\n0 :fail :cas [3 4]", "unknown", "unknown"),
        (WROTE + "0 :invoke :cas [3 4]\n0 :fail :cas :timed-out", "ok", "ok"),
        (WROTE + "0 :invoke :read nil\n0 :ok :read 4", "violated", "violated"),
    ],
)
def test_the_first_value_is_not_made_up_and_nil_may_say_nothing(
    lines: str, outcome: str, absent_at_first: str
) -> None:
    ops = jepsen_log.parse(lines).ops
    assert [r.outcome for r in check_linearizability(ops, "cas-register")] == [outcome]
    results = check_linearizability(ops, "cas-register", assume=Assumptions(initial=None))
    assert [r.outcome for r in results] == [absent_at_first]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("nothing to see", None, "no operation found"),
        ("0 :invoke :read nil\nx y :ok", 2, "expected 'process :type :f value'"),
        ("0 :invoke :read nil\n\n1 :ok :read nil", 3, "never invoked"),
        ("0 :invoke :cas [3", 1, "expected nil, a number"),
        ("\n0 :invoke :cas 3", 2, "expected a pair"),
    ],
)
def test_damage_is_told_with_its_line(text: str, line: int | None, said: str) -> None:
    with pytest.raises(HistoryError, match=said) as error:
        jepsen_log.parse(text)
    assert error.value.line == line
