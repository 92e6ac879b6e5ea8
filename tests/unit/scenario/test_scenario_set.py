"""`--set key.path=value`: what it can change, and what it says when it can't."""

from __future__ import annotations

import pytest

from lab.errors import LabError
from lab.faults.cut import Cut
from lab.faults.jump import Jump
from lab.scenario.load import LoadedScenario, load_scenario, load_text
from lab.scenario.model import Expect
from lab.scenario.steps import Do

FORM = "key.path=value, like lock.ttl=2s or steps[3].jump.by=+5s"


def loaded(*overrides: str) -> LoadedScenario:
    return load_scenario("partition-clockjump", overrides)


def error(*overrides: str) -> LabError:
    with pytest.raises(LabError) as caught:
        loaded(*overrides)
    return caught.value


def test_a_value_is_set() -> None:
    run = loaded("lock.ttl=2s", "cluster.persistence=none", "key=other")
    assert (run.scenario.lock.ttl_ns, run.scenario.cluster.persistence) == (2_000_000_000, "none")
    assert run.scenario.key == "other"
    assert run.overrides == ("lock.ttl=2s", "cluster.persistence=none", "key=other")


def test_the_rest_stays_as_it_is() -> None:
    before, after = loaded().scenario, loaded("lock.ttl=2s").scenario
    assert after.model_copy(update={"lock": before.lock}) == before


def test_the_last_override_wins() -> None:
    assert loaded("lock.ttl=2s", "lock.ttl=3s").scenario.lock.ttl_ns == 3_000_000_000


def test_what_the_file_leaves_out_can_be_set() -> None:
    run = loaded("store.fencing=true", "lock.options.retry_count=5", "unavailable_after=30s")
    assert run.scenario.store.fencing is True
    assert run.scenario.lock.options == {"node_timeout": "250ms", "retry_count": 5}
    assert run.scenario.unavailable_after_ns == 30_000_000_000


@pytest.mark.parametrize("path", ["steps.5.jump.by", "steps[5].jump.by"])
def test_a_step_is_reached_by_its_number(path: str) -> None:
    step = loaded(f"{path}=-5s").scenario.steps[5]
    assert step == Jump.model_validate({"jump": {"node": "C", "by": "-5s"}})


def test_a_mapping_is_merged_key_by_key_or_replaced_as_a_whole() -> None:
    assert loaded("expect.fencing=ok").scenario.expect.resource == "violated"
    replaced = loaded("expect={mutual_exclusion: ok}").scenario.expect
    assert replaced == Expect(mutual_exclusion="ok")


def test_steps_can_be_replaced() -> None:
    run = loaded("steps=[{do: alice works}, {cut: {client: bob, nodes: all}}]")
    assert [type(step) for step in run.scenario.steps] == [Do, Cut]


def test_an_item_of_a_list_can_be_replaced() -> None:
    step = loaded("steps[1].cut.nodes[0]=A").scenario.steps[1]
    assert isinstance(step, Cut)
    assert step.nodes == ("A", "E")


def test_a_listed_client_can_be_told_how_to_behave() -> None:
    clients = loaded("clients.alice.check_before_write=false").scenario.clients
    assert (clients["alice"].check_before_write, clients["bob"].check_before_write) == (False, True)


def test_an_equals_sign_may_stand_in_the_value() -> None:
    assert loaded("title=a=b").scenario.title == "a=b"


def test_an_alias_is_changed_in_one_place_only() -> None:
    text = (
        "{title: t, source: s, why: w, clients: [a], expect: {resource: ok},"
        " steps: [{cut: &c {client: a, nodes: [A]}}, {cut: *c}]}"
    )
    first, second = load_text(text, "s.yaml", ["steps[0].cut.nodes=[B]"]).scenario.steps
    assert isinstance(first, Cut)
    assert isinstance(second, Cut)
    assert (first.nodes, second.nodes) == (("B",), ("A",))


def test_an_item_of_an_aliased_list_is_changed_in_one_place_only() -> None:
    text = (
        "{title: t, source: s, why: w, clients: [a], expect: {resource: ok},"
        " steps: [{cut: {client: a, nodes: &n [A]}}, {cut: {client: a, nodes: *n}}]}"
    )
    first, second = load_text(text, "s.yaml", ["steps[1].cut.nodes[0]=B"]).scenario.steps
    assert isinstance(first, Cut)
    assert isinstance(second, Cut)
    assert (first.nodes, second.nodes) == (("A",), ("B",))


@pytest.mark.parametrize(
    ("override", "seen", "where", "expected", "hint"),
    [
        ("lock.tll=2s", 'unknown key "tll"', "", "name, ttl, options or key", 'did you mean "ttl"?'),
        ("clients.alice.chek=true", 'unknown key "chek"', "", "check_before_write", None),
        ("lock.ttl=2", "the number 2 has no unit", "", None, "write 2s for seconds or 2ms for milliseconds"),
        ("cluster.nodes=27", "the number 27 is out of range", "", "26 or less", None),
        ("steps[1].cut.client=alcie", 'unknown client "alcie"', "", "alice or bob", 'did you mean "alice"?'),
        ("title=", "nothing is not a text", "", "a text", None),
        ("lokc.ttl=2s", 'unknown key "lokc"', ", key `lokc`", None, 'did you mean "lock"?'),
        (
            "steps=[{cut: {client: alcie, nodes: all}}]",
            'unknown client "alcie"',
            ", key `steps[0].cut.client`",
            "alice or bob",
            'did you mean "alice"?',
        ),
        ("lock.ttl", '"lock.ttl" has no value', "", FORM, None),
        ("=2s", '"" is not the path of a key', "", FORM, None),
        ("lock..ttl=2s", '"lock..ttl" is not the path of a key', "", FORM, None),
        ("steps[x].do=alice works", '"steps[x].do" is not the path of a key', "", FORM, None),
        ("title.x=1", 'title is one value and has no key "x"', "", FORM, None),
        ("steps.99.do=x", 'steps is a list and has no item "99"', "", "a number from 0 to 16", None),
        ("steps.first=x", 'steps is a list and has no item "first"', "", "a number from 0 to 16", None),
        (
            "steps[1].ctu.client=bob",
            'steps[1] is a step "cut", not "ctu"',
            "",
            "the key cut",
            'did you mean "cut"?',
        ),
        (
            "steps[1].jump.by=+5s",
            'steps[1] is a step "cut", not "jump"',
            "",
            "the key cut",
            "to replace the step: --set 'steps[1]={jump: …}'",
        ),
        ("lock={ttl: 1s, ttl: 2s}", 'the key "ttl" is given twice', ", key `lock.ttl`", None, None),
        ("title=!!python/name:os x", 'the tag "python/name:os" is not allowed', ", key `title`", None, None),
    ],
)
def test_a_wrong_override_is_explained(
    override: str, seen: str, where: str, expected: str | None, hint: str | None
) -> None:
    found = error(override)
    assert (found.seen, found.where) == (seen, f"--set {override}{where}")
    assert expected is None or found.expected == expected
    assert hint is None or found.hint == hint


def test_a_value_that_is_no_yaml() -> None:
    found = error("lock.ttl=[")
    assert found.where == "--set lock.ttl=["
    assert "expected the node content" in found.seen


def test_a_wrong_file_is_blamed_before_an_override() -> None:
    with pytest.raises(LabError) as caught:
        load_text("title: a\ntitle: b", "s.yaml", ["title=c"])
    assert caught.value.where == "s.yaml:2:1, key `title`"


def test_what_an_override_breaks_elsewhere_is_found_in_the_file() -> None:
    found = error("cluster.nodes=4")
    assert found.seen == 'unknown node "E"'
    assert found.where is not None
    assert "partition-clockjump.yaml:" in found.where
    assert found.where.endswith(", key `steps[1].cut.nodes[1]`")
