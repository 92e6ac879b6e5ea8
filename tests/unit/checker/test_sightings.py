"""What looks at nodes prove about a key, each bound to the nanosecond."""

from __future__ import annotations

from typing import Any

import pytest

from checker.history.events import Event, Params
from checker.history.history import History
from checker.history.operations import NEVER
from checker.history.sightings import PTTL_STEP_NS, Command, Look, Node, Sightings, lost_between

STEP = PTTL_STEP_NS


def command(words: str, first: int = 5, last: int = 6, after: int = 0) -> Command:
    return Command(tuple(words.split()), first, last, after, 0)


def look(asked: int, token: str | None = None, *commands: Command, left: int | None = None) -> Look:
    """A look that is answered two later."""
    return Look(0, asked, asked + 2, token, left, commands, 0)


def node(*looks: Look, **known: Any) -> Node:
    return Node("A", list(looks), **known)


@pytest.mark.parametrize(
    ("words", "name", "may_end", "may_set"),
    [
        ("", "", True, False),
        ("set k t", "SET", True, True),
        ("SET k t NX PX 5", "SET", False, True),
        ("SET k t nx", "SET", False, True),
        ("setnx k t", "SETNX", False, True),
        ("PEXPIRE k 5 NX", "PEXPIRE", True, False),
        ("DEL k", "DEL", True, False),
        ("evalsha f 1 k t", "EVALSHA", False, False),
        ("EVAL f 1 k t", "EVAL", False, False),
        ("FCALL f 1 k t", "FCALL", False, False),
    ],
)
def test_what_a_command_may_have_done(words: str, name: str, may_end: bool, may_set: bool) -> None:
    seen = command(words)
    assert (seen.name, seen.may_end, seen.may_set("t")) == (name, may_end, may_set)


def test_a_token_was_not_there_before_the_look_that_did_not_see_it_nor_before_its_command() -> None:
    assert node(look(10, "t")).appeared_ns("t", 3) == 3
    assert node(look(10), look(20, "t")).appeared_ns("t", 3) == 10
    assert node(look(10), look(20, "t")).appeared_ns("t", 13) == 13
    assert node(look(7), look(10), look(20, "t"), look(30), look(40, "t")).appeared_ns("t", 3) == 10
    twice = command("SET k t", 16), command("SET k t", 14), command("SET k u", 11)
    assert node(look(10), look(20, "t", *twice)).appeared_ns("t", 3) == 14
    assert node(look(10), look(20, "t", *twice)).appeared_ns("t", 15) == 15
    assert node(look(10), look(20, "t", *twice[2:])).appeared_ns("t", 3) == 10
    assert node(look(10), look(20, "t", *twice), clock_moved=True).appeared_ns("t", 3) == 10


def test_a_node_never_had_a_token_only_if_everything_was_seen_of_it() -> None:
    sets, deletes = command("SET k t"), command("DEL k")
    assert node(left=True).never_had("t")
    assert not node().never_had("t")
    assert not node(left=True, downs=[(1, 1)]).never_had("t")
    assert not node(left=True, hit=True).never_had("t")
    assert not node(left=True, unordered=[deletes]).never_had("t")
    assert node(look(10, None, command("SET k u"), deletes), left=True).never_had("t")
    assert node(look(10, None, command("SET k t NX")), left=True).never_had("t")
    assert not node(look(10, None, command("SET k t NX"), deletes), left=True).never_had("t")
    assert not node(look(10, None, sets), left=True).never_had("t")
    assert node(look(10, None, command("SET k t NX")), look(20, None, deletes), left=True).never_had("t")


def test_all_commands_of_a_node() -> None:
    one, two, three = (command(f"GET {name}") for name in "abc")
    assert list(node(look(1, None, one), look(5, None, two), unordered=[three]).commands()) == [
        one,
        two,
        three,
    ]


def test_when_a_token_was_lost() -> None:
    here, gone, other = look(10, "t"), look(20), look(30, "u")
    assert lost_between(node(here, gone, other), "t", 50) == (here, gone)
    assert lost_between(node(here, other), "t", 50) == (here, other)
    assert lost_between(node(here, gone), "t", 10) == (here, gone)  # the look after it was asked later
    assert lost_between(node(here, gone), "t", 9) is None
    assert lost_between(node(here, look(15, "t"), gone), "t", 12) is None
    assert lost_between(node(here, gone), "u", 50) is None
    again = look(40, "t")
    assert lost_between(node(here, gone, again, look(50)), "t", 60) == (again, look(50))
    assert lost_between(node(here, gone, again, look(50)), "t", 20) == (here, gone)
    assert lost_between(node(here), "t", 50) is None
    assert lost_between(node(), "t", 50) is None


# -- from the events of a history ----------------------------------------------------------------------------


def seen(*events: Event, **params: Any) -> Sightings:
    assume: dict[str, Any] = {"rho": 0.0, "nodes": 3, "clients": ["alice"], **params}
    return Sightings(History.from_events(events, Params(**assume)))


def note(f: str, name: str | None = "A", at: int = 0, process: str = "node", **more: Any) -> Event:
    return Event(time_ns=at, process=process, type="info", f=f, node=name, key=more.pop("key", "k"), **more)


def looked(name: str, asked: int, token: str | None, left: int | None = 0, **value: Any) -> Event:
    about = {"asked_ns": asked, "answered_ns": asked + 2, **value}
    return note("key-set", name, value=about, token=token, ttl_left_ns=left)


def test_looks_and_commands_as_they_are_recorded() -> None:
    full = {"command": " SET  k t ", "seen_ns": 60, "ran_ns": [40, 50], "after": 7}
    bare = {"command": "DEL k", "seen_ns": 60}
    late = {"command": "DEL k", "seen_ns": 55, "ran_ns": [54, 59]}
    first = note("key-deleted", value={"asked_ns": 30, "answered_ns": 33}, token="old", ttl_left_ns=None)
    second = looked("A", 20, "t", 9, look=4, commands=[full, bare, late])
    third = note("key-observed", value={"asked_ns": 40, "answered_ns": 41}, token="t", ttl_left_ns=8)
    (known,) = seen(first, second, third, epsilon_ns=2).nodes["k"].values()
    assert [look.asked_ns for look in known.looks] == [20, 30, 40]
    assert known.looks[1] == Look(0, 30, 33, None, None, (), 0)
    assert known.looks[2] == Look(0, 40, 41, "t", 8, (), 2)
    assert known.looks[0] == Look(
        *(4, 20, 22, "t", 9),
        (
            Command(("SET", "k", "t"), 38, 52, 7, 1),
            Command(("DEL", "k"), -2, 60, 0, 1),
            Command(("DEL", "k"), 52, 55, 0, 1),
        ),
        1,
    )
    (early,) = seen(looked("A", 9, "t", commands=[late | {"seen_ns": 50}])).nodes["k"]["A"].commands()
    assert (early.first_ns, early.last_ns) == (54, 54)


def test_what_is_no_look() -> None:
    assert not seen(note("key-set", None, value={"asked_ns": 1, "answered_ns": 2}))
    assert not seen(note("key-set", value={"asked_ns": 1, "answered_ns": 2}, process="lab"))
    for event in (
        note("key-set", value=None),
        note("key-set", value="words"),
        note("key-set", value={"answered_ns": 2}),
        note("node-up", value={"asked_ns": 1, "answered_ns": 2}),
    ):
        known = seen(event)
        assert known
        assert known.nodes == {"k": {"A": Node("A")}}


def test_what_befell_a_node() -> None:
    touched = note("key-touched", value={"commands": [{"command": "DEL k", "seen_ns": 4}]})
    known = seen(touched, note("node-down", at=7), note("node-left", at=9)).nodes["k"]["A"]
    assert known.unordered == [Command(("DEL", "k"), 0, 4, 0, 0)]
    assert (known.downs, known.left) == ([(7, 1)], True)
    assert not known.looks


def test_what_is_said_of_no_key_is_said_of_all() -> None:
    known = seen(looked("A", 1, "t"), note("node-down", at=3, key=None), note("key-touched", key="l"))
    assert [known.nodes[key]["A"].downs for key in ("k", "l")] == [[(3, 1)], [(3, 1)]]
    assert set(known.nodes) == {"k", "l"}
    assert not seen(note("node-left", at=3, key=None))


@pytest.mark.parametrize(
    ("f", "targets", "heals", "hit", "moved"),
    [
        ("jump", ["A"], None, True, True),
        ("drift", ["B", "A"], None, True, True),
        ("strobe", ["A"], None, True, True),
        ("crash", ["A"], None, True, False),
        ("jump", ["B"], None, False, False),
        ("jump", ["A"], "other", False, False),
        ("cut", ["alice", "A"], None, False, False),
    ],
)
def test_faults_that_had_a_node_for_a_target(
    f: str, targets: list[str], heals: str | None, hit: bool, moved: bool
) -> None:
    fault = Event(time_ns=1, process="nemesis", type="invoke", f=f, targets=targets, heals=heals)
    known = seen(looked("A", 5, "t"), fault).nodes["k"]["A"]
    assert (known.hit, known.clock_moved) == (hit, moved)


def everywhere(*looks: tuple[str, int, str | None], left: str = "", **params: Any) -> Sightings:
    """Looks at nodes; those that are `left` were watched to the end."""
    ends = [note("node-left", name) for name in left]
    return seen(*(looked(name, asked, token, STEP) for name, asked, token in looks), *ends, **params)


def test_who_had_a_token() -> None:
    known = everywhere(("A", 10, "t"), ("B", 10, None), ("C", 10, None), left="ABC")
    assert list(known.voters("k", "t", 5) or {}) == ["A"]
    assert known.voters("l", "t", 5) is None
    assert known.voters("k", "u", 5) is None  # no look saw it
    assert list(known.voters("k", "t", 12) or {}) == ["A"]
    assert known.voters("k", "t", 13) is None  # it was there before it was asked for
    unseen = everywhere(("A", 10, "t"), ("B", 10, None), ("C", 10, None), left="AC")
    assert list(unseen.voters("k", "t", 5) or {}) == ["A", "B"]
    assert everywhere(("A", 10, "t"), ("B", 10, "t")).voters("k", "t", 5) is None  # of three nodes
    assert list(everywhere(("A", 10, "t"), nodes=1).voters("k", "t", 5) or {}) == ["A"]
    assert everywhere(("A", 10, "t"), nodes=None, quorum=1).voters("k", "t", 5) is None  # of any number
    again = everywhere(("A", 10, "t"), ("A", 20, "t"), nodes=1)
    assert again.voters("k", "t", 12) is not None
    assert again.voters("k", "t", 13) is None


def test_how_many_nodes_make_a_grant() -> None:
    known = everywhere(nodes=5)
    assert [known.needed(range(count)) for count in range(6)] == [1, 1, 1, 3, 3, 3]
    assert [everywhere(nodes=5, quorum=2).needed(range(count)) for count in range(4)] == [1, 1, 2, 2]


def test_when_a_grant_was_over() -> None:
    """A node has the key for a step longer than it says, and rounds by one."""
    known = everywhere(("A", 10, "t"), ("B", 20, "t"), ("C", 30, "t"))
    assert known.over_by("k", "t", 5, 100) == 22 + 2 * STEP + 1  # two of three
    assert known.over_by("k", "t", 5, 30) == 22 + 2 * STEP + 1
    assert known.over_by("k", "t", 5, 20) == NEVER  # only one was asked before that
    assert known.over_by("l", "t", 5, 100) == NEVER
    one = everywhere(("A", 10, "t"), ("A", 40, "t"), nodes=1)
    assert one.over_by("k", "t", 5, 100) == 42 + 2 * STEP + 1
    assert one.over_by("k", "t", 5, 40) == 12 + 2 * STEP + 1
    slow = everywhere(("A", 10, "t"), nodes=1, rho=0.25)
    assert slow.over_by("k", "t", 5, 100) == 12 + 2 * STEP + STEP // 2 + 1
    endless = seen(looked("A", 10, "t", 5), looked("A", 20, "t", None), nodes=1)
    assert endless.over_by("k", "t", 5, 100) == NEVER
    assert endless.over_by("k", "t", 5, 20) == 12 + 5 + STEP + 1
    assert seen(looked("A", 10, "t", 0), nodes=1).over_by("k", "t", 5, 100) == 12 + STEP + 1
    few = everywhere(("A", 10, "t"), ("B", 10, None), ("C", 10, None), left="ABC")
    assert few.over_by("k", "t", 5, 100) == 12 + 2 * STEP + 1  # less than a majority: with the last of them


def test_when_a_grant_was_made() -> None:
    known = everywhere(("A", 10, None), ("B", 20, None), ("C", 30, None), ("A", 40, "t"), ("B", 41, "t"))
    assert known.began_ns("k", "t", 5) == 10  # C may have had it unseen, from the beginning
    assert known.began_ns("l", "t", 5) == 5
    one = everywhere(("A", 10, None), ("B", 20, None), ("C", 30, None), ("B", 41, "t"), left="AC")
    assert one.began_ns("k", "t", 5) == 20
    three = everywhere(*(("ABC"[i], 10 * i, None) for i in range(3)), *((n, 50, "t") for n in "ABC"))
    assert three.began_ns("k", "t", 5) == 10
