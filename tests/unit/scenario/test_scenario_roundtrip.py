"""Model → YAML → model: nothing is lost, whatever the scenario."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lab.client_protocol import POINTS
from lab.durations import MAX_NS, format_duration
from lab.faults.pause import Pause
from lab.scenario.actions import VERBS
from lab.scenario.load import dump, load_text
from lab.scenario.model import PROPERTIES, Scenario
from lab.scenario.registry import steps
from tests.fuzzing import examples

CLIENTS = ("alice", "bob", "on", "no", "null", "y")
TRICKY = (
    *(
        "on",
        "no",
        "null",
        "~",
        "1:30",
        "0o17",
        "1e5",
        "2016-02-08",
        "=",
        "<<",
        "true",
        "0x1f",
        ".5",
        "1_000",
        ".inf",
    ),
    *(
        " x",
        "x ",
        "a: b",
        "# c",
        "x\ny\n",
        "x\n",
        "\n x",
        " x\ny",
        "x\n\n",
        "x\r\ny",
        "x\x85",
        "x\u2028y",
        "\t",
        "'\"'",
        "é\x07",
    ),
)

texts = st.one_of(
    st.sampled_from([text for text in TRICKY if text.strip()]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip),
)
positive = st.integers(1, MAX_NS).map(format_duration)
signed = st.integers(-MAX_NS, MAX_NS).map(lambda by_ns: format_duration(by_ns, signed=True))
clients = st.sampled_from(CLIENTS)
node_names = st.sampled_from("ABC")
nodes = st.one_of(st.just("all"), st.lists(node_names, min_size=1, unique=True))
sentences = st.builds(
    "{} {}".format, clients, st.sampled_from([verb for verb in VERBS if verb != "continues"])
)
machines = st.one_of(
    st.builds(lambda node: {"node": node}, node_names), st.builds(lambda client: {"client": client}, clients)
)
ends = st.one_of(st.fixed_dictionaries({"nodes": nodes}), st.just({"store": True}))


WATCHED: list[dict[str, Any]] = [
    {"cut": {"node": "A", "nodes": ["B", "S1"]}},
    {"failover": {"by": "S1"}},
    {"until": {"master": "B", "by": ["S1", "S2"], "within": "20s"}},
    {"until": {"sdown": "A"}},
    {"until": {"role_of": "A", "is": "replica"}},
]
"""Steps for a cluster with Sentinels."""
SHARDED: list[dict[str, Any]] = [
    {"cut": {"node": "A", "nodes": ["B", "D"]}},
    {"failover": {"by": "D", "force": True}},
    {"reshard": {"to": "B"}},
    {"assign_slot": {"to": "B"}},
    {"reshard": {"to": "C", "keys": "stay"}},
    {"assign_slot": {"to": "C"}},
    {"until": {"master": "D", "by": ["B", "C"]}},
]
"""Steps for a Redis Cluster."""


def fields(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


anchors = st.one_of(
    fields({"keys": st.just("gone")}, {"nodes": nodes, "within": positive}),
    fields({"lease": clients, "over": st.booleans()}, {"within": positive}),
)
bodies: dict[str, st.SearchStrategy[Any]] = {
    "do": st.one_of(sentences, st.lists(sentences, min_size=1, max_size=3)),
    "cut": fields(
        {"client": clients, "nodes": nodes},
        {
            "direction": st.sampled_from(["both", "requests", "replies"]),
            "mode": st.sampled_from(["blackhole", "refused"]),
        },
    )
    | fields(
        {"client": clients, "nodes": nodes, "connection": st.sampled_from(["commands", "subscription"])}, {}
    ),
    "hold": st.builds(
        lambda body, end: body | end,
        fields({"client": clients}, {"direction": st.sampled_from(["requests", "replies"])}),
        ends,
    ),
    "heal": st.one_of(st.just("all"), st.builds(lambda client, end: {"client": client} | end, clients, ends)),
    "delay": st.builds(
        lambda body, end: body | end,
        fields({"client": clients, "by": st.just("200ms")}, {"jitter": st.sampled_from(["0s", "100ms"])}),
        ends,
    ),
    "bandwidth": st.builds(
        lambda client, rate, end: {"client": client, "rate": f"{rate}KB/s"} | end,
        clients,
        st.integers(1, 10_000),
        ends,
    ),
    "answers": fields(
        {"nodes": nodes, "error": st.sampled_from(["BUSY", "ERR no: '#"])},
        {"client": clients, "to": st.sampled_from(["SET", ["EVAL", "EVALSHA"]])},
    ),
    "evict": st.one_of(
        fields({"nodes": nodes}, {"key": texts}), fields({"nodes": nodes, "all": st.just(True)}, {})
    ),
    "reset": st.builds(lambda client, end: {"client": client} | end, clients, ends),
    "jump": st.builds(lambda body, who: body | who, fields({"by": signed}, {}), machines),
    "drift": st.builds(lambda ppm, who: {"ppm": ppm} | who, st.integers(100, 1_000_000), machines),
    "strobe": st.builds(
        lambda body, who: body | who, fields({"by": signed, "every": st.just("10ms")}, {}), machines
    ),
    "correct": st.one_of(st.just("all"), machines),
    "acquire": fields({"client": clients}, {"ttl": positive, "key": st.just("other")}),
    "extend": fields({"client": clients}, {"ttl": positive}),
    "release": fields({"client": clients}, {"again": st.booleans()}),
    "write": fields({"client": clients}, {"if_checked": st.booleans()}),
    **{key: fields({"client": clients}, {}) for key in ("read", "check", "close", "open")},
    "until": anchors,
    "wait": positive,
    "say": texts,
}
one_step = st.one_of([st.fixed_dictionaries({key: body}) for key, body in bodies.items()])
# Steps that only make sense one after the other.
ORDERED: tuple[list[dict[str, Any]], ...] = (
    [
        {"start": "alice works until read"},
        {"until": {"nodes": "all", "executed": "SET"}},
        {"finish": "alice"},
    ],
    [{"start": "alice works"}, {"start": "on reads"}, {"finish": ["alice", "on"]}],
    [{"pause": {"client": "no"}}, {"resume": {"client": "no"}}],
    [{"pause": {"node": "A"}}, {"resume": {"node": "A"}}],
    [
        {"cut": {"node": "C", "from": "B"}},
        {"until": {"nodes": ["C"], "replicated": False}},
        {"prime": {"nodes": "all"}},
        {"stall_disk": {"nodes": ["A"]}},
        {"until": {"nodes": ["A"], "synced": False}},
        {"free_disk": {"nodes": ["A"]}},
        {"fill_memory": {"nodes": ["A"]}},
        {"free_memory": {"nodes": ["A"]}},
        {"power_cut": {"nodes": ["A"]}},
        {"crash": {"nodes": ["B"]}},
        {"promote": {"node": "C"}},
        {"restart": {"nodes": ["A", "B"], "after": "10s"}},
        {"until": {"nodes": ["A"], "up": True}},
        {"shutdown": {"nodes": ["C"]}},
        {"start": "alice works until read"},
        {"until": {"client": "alice", "at": "read"}},
        {"client_crash": {"client": "alice"}},
    ],
    [{"do": f"alice works until {point}"} for point in POINTS] + [{"do": "alice continues"}],
)
step_lists = st.builds(
    lambda before, ordered: [*before, *ordered],
    st.lists(one_step, min_size=1, max_size=5),
    st.sampled_from([*ORDERED, []]),
)
options = st.one_of(
    texts, st.booleans(), st.integers(-(10**30), 10**30), st.floats(allow_nan=False, allow_infinity=False)
)
scenarios = fields(
    {
        "title": texts,
        "source": texts,
        "why": texts,
        "clients": st.one_of(
            st.just(list(CLIENTS)),
            st.just({name: {"check_before_write": name == "bob"} for name in CLIENTS}),
            st.just(dict.fromkeys(CLIENTS)),
        ),
        "cluster": fields(
            {
                "nodes": st.integers(3, 26),
                "persistence": st.just("aof-everysec"),
                "replicas": st.just({"C": "B"}),
                "config": st.just({"maxmemory": "8mb", "appendfsync": "no", "min-replicas-to-write": "1"}),
            },
            {"base_port": st.integers(1024, 65000)},
        ),
        "steps": step_lists,
        "expect": fields(
            {"resource": st.sampled_from(["ok", "violated", "unknown"])},
            {
                "fencing": st.sampled_from(["ok", "absent"]),
                "findings": st.lists(st.sampled_from(["overlap", "lost-update"]), max_size=2),
            },
        ),
    },
    {
        "control_of": texts,
        "claims": st.lists(st.integers(1, 21), max_size=3),
        "lock": fields(
            {},
            {
                "name": texts,
                "ttl": positive,
                "options": st.dictionaries(st.from_regex(r"\A[a-z][a-z0-9_]{0,9}\Z"), options, max_size=3),
            },
        ),
        "store": fields({}, {"fencing": st.booleans()}),
        "key": st.from_regex(r"\A[!-~]{1,20}\Z"),
        "grace": positive,
        "unavailable_after": positive,
    },
)


@settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(scenarios)
def test_a_scenario_survives_being_written_and_read(data: dict[str, Any]) -> None:
    scenario = Scenario.model_validate(data)
    text = dump(scenario)
    assert load_text(text, "s.yaml").scenario == scenario
    # Another reader of YAML, by the rules of 1.1, sees the same data.
    assert Scenario.model_validate(yaml.safe_load(text)) == scenario


@pytest.mark.parametrize("text", [text for text in TRICKY if text.strip()])
def test_a_tricky_text_survives(text: str) -> None:
    data = {
        "title": text,
        "source": "s",
        "why": f"{text}\n{text}",
        "clients": ["a"],
        "steps": [{"say": text}],
    }
    scenario = Scenario.model_validate(
        data | {"lock": {"options": {"x": text}}, "expect": {"resource": "ok"}}
    )
    assert load_text(dump(scenario), "s.yaml").scenario == scenario


@pytest.mark.parametrize(
    ("cluster", "steps"),
    [
        ({"nodes": 2, "replicas": {"B": "A"}, "sentinels": 3, "quorum": 2, "down_after": "500ms"}, WATCHED),
        ({"nodes": 4, "replicas": {"D": "A"}, "sharded": True, "node_timeout": "500ms"}, SHARDED),
    ],
    ids=["sentinels", "redis-cluster"],
)
def test_a_scenario_with_servers_that_fail_over_survives(
    cluster: dict[str, Any], steps: list[dict[str, Any]]
) -> None:
    data = {
        "title": "t",
        "source": "s",
        "why": "w",
        "cluster": cluster,
        "clients": ["a"],
        "steps": steps,
        "expect": {"resource": "ok"},
    }
    scenario = Scenario.model_validate(data)
    assert load_text(dump(scenario), "s.yaml").scenario == scenario


def test_every_step_is_generated() -> None:
    listed = (*ORDERED, WATCHED, SHARDED)
    assert {*bodies, *(key for some in listed for step in some for key in step)} == set(steps())


def test_every_property_can_be_expected() -> None:
    data = {"title": "t", "source": "s", "why": "w", "clients": ["a"], "steps": [{"say": "x"}]}
    for name in PROPERTIES:
        scenario = Scenario.model_validate(data | {"expect": {name: "ok"}})
        assert scenario.expect.outcomes == {name: "ok"}


def test_a_scenario_can_not_be_changed() -> None:
    step = Pause(client="alice")
    with pytest.raises(ValidationError, match="frozen"):
        step.client = "bob"  # type: ignore[misc]


def test_all_nodes_are_written_out() -> None:
    data = {"title": "t", "source": "s", "why": "w", "clients": ["a"], "steps": [{"say": "x"}]}
    scenario = Scenario.model_validate(data | {"expect": {"resource": "ok"}, "cluster": {"nodes": 3}})
    assert scenario.resolve("all") == ("A", "B", "C")
    assert scenario.resolve(("C", "A")) == ("C", "A")
