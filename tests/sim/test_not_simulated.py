"""What a simulated node lacks is told apart from what no server has: the former says nothing about a lock."""

from __future__ import annotations

from pathlib import Path

import pytest
from xxhash import xxh3_64_hexdigest

from lab.errors import ExitCode, LabError, NotModelled
from lab.examine.command import Asked, examine
from lab.redis_model.known import TABLE, Missing, _table, command_use
from lab.redis_model.model import MODELLED, modelled
from lab.redis_model.registry import COMMANDS
from lab.redis_model.scripts import CALLS_MAX, MILLION_STEPS_MAX
from lab.search.kind import kind_of
from lab.servers import DEFAULT, Server
from tests.lab_process import Lab
from tests.sim.redis_arms import SimArm
from tests.sim.simulated import run_in_simulation

LOCKS = "tests.locks_to_test.by_condition:"
REDIS_70, REDIS_86 = Server("redis", "7.0.15"), Server("redis", "8.6.3")
VALKEY_81, VALKEY_91 = Server("valkey", "8.1.1"), Server("valkey", "9.1.2")
STEPS = f"a script that did not end within {MILLION_STEPS_MAX} million steps"
CALLS = f"a script that did not end within {CALLS_MAX} commands"
DIGESTS = {
    0: "2d06800538d394c2",
    1: "c00f9d4f580c0c3a",
    3: "a3c1edd15ab32513",
    4: "3d087c3aa0753909",
    8: "7594cc40d33572e8",
    9: "88e792cf98fe3976",
    16: "efe0ac9306ff66ed",
    17: "c7d141cf42138847",
    128: "8e9b0d377ecc08e7",
    129: "d50fb98b6e55830c",
    240: "6a67e243cb59bddb",
    241: "08b552a0d849af24",
    1024: "ac43c2fd4040133f",
    1025: "1db89c57bb80a308",
    3000: "77f561fbf916f7c2",
}
"""What DIGEST of Redis 8.6.3 answered for the first so many bytes of "lease-0123456789", repeated."""


def missed(server: Server, *words: str) -> list[Missing]:
    """What a node tells that it lacks when it is asked this."""
    told: list[Missing] = []
    model = SimArm(server=server).model
    model.on_missing = told.append
    model.call(*words)
    return told


@pytest.mark.parametrize(
    ("server", "words", "sentence", "remedy"),
    [
        (REDIS_86, "GEOADD g 1 2 a", "uses GEOADD, which simulated nodes lack", "try --on virtual"),
        (
            REDIS_86,
            "CLIENT TRACKING ON",
            "uses CLIENT TRACKING, which simulated nodes lack",
            "try --on virtual",
        ),
        (REDIS_86, "JSON.SET k . 1", "uses JSON.SET, which simulated nodes lack", "try --on virtual"),
        (
            REDIS_86,
            "CLIENT KILL USER default",
            "uses CLIENT KILL … USER, which simulated nodes lack",
            "try --on virtual",
        ),
        (REDIS_86, "CONFIG SET hz 5", "uses CONFIG SET hz, which simulated nodes lack", "try --on virtual"),
        (REDIS_86, "SELECT 1", "uses SELECT 1 (another database than 0), which simulated nodes lack", None),
        (
            REDIS_70,
            "SET k v IFEQ w",
            "uses SET … IFEQ, which needs Redis 8.4 or Valkey 8.1; the simulated nodes are Redis 7.0.15",
            "try --server redis@8.4",
        ),
        (
            REDIS_70,
            "DELEX k IFEQ v",
            "uses DELEX, which needs Redis 8.4; the simulated nodes are Redis 7.0.15",
            "try --server redis@8.4",
        ),
        (
            REDIS_86,
            "DELIFEQ k v",
            "uses DELIFEQ, which needs Valkey 9.0; the simulated nodes are Redis 8.6.3",
            "try --server valkey@9.0",
        ),
        (
            VALKEY_91,
            "SET k v IFNE w",
            "uses SET … IFNE, which needs Redis 8.4; the simulated nodes are Valkey 9.1.2",
            "try --server redis@8.4",
        ),
        (
            VALKEY_81,
            "HPEXPIRE h 5 FIELDS 1 f",
            "uses HPEXPIRE, which needs Redis 7.4 or Valkey 9.0; the simulated nodes are Valkey 8.1.1",
            None,
        ),
        (
            REDIS_70,
            "XACKDEL s g IDS 1 1-1",
            "uses XACKDEL, which needs Redis 8.2; the simulated nodes are Redis 7.0.15",
            "try --on virtual --server redis@8.2, or a later one",
        ),
    ],
)
def test_what_servers_have_and_this_node_has_not_is_told(
    server: Server, words: str, sentence: str, remedy: str | None
) -> None:
    told = missed(server, *words.split())
    assert told[0].sentence == sentence
    assert remedy is None or told[0].remedy() == remedy


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (REDIS_86, "FOO a"),
        (REDIS_86, "CLIENT FOO"),
        (REDIS_86, "SET k v IFFOO w"),
        (REDIS_86, "SET k v NX XX"),
        (REDIS_86, "SET k IFEQ PX 0"),
        (REDIS_86, "SET k v PX"),
        (REDIS_86, "DELEX k IFEQ"),
        (REDIS_86, "EXPIRE k x"),
        (REDIS_86, "GET"),
        (REDIS_70, "CLIENT SETINFO LIB-NAME x"),  # libraries try this on any server, and go on without it
    ],
)
def test_what_no_server_takes_is_the_clients_own_mistake(server: Server, words: str) -> None:
    assert missed(server, *words.split()) == []
    assert str(SimArm(server=server).model.call(*words.split())).startswith(("ERR", "WRONGTYPE"))


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("return redis.pcall('geoadd','g',1,2,'a')", "GEOADD"),
        ("return pcall(redis.call,'geoadd','g',1,2,'a')", "GEOADD"),
        ("return redis.call('delifeq',KEYS[1],'v')", "DELIFEQ"),
        ("return redis.pcall('client','kill','type','normal')", None),
        ("return cjson.decode_max_depth(5)", "cjson.decode_max_depth"),
        ("return pcall(struct.pack,'i',2)", "struct.pack"),
        ("return redis.setresp(3)", "redis.setresp"),
        ("while true do end", STEPS),
        ("while true do pcall(function() while true do end end) end", STEPS),
        ("while true do xpcall(function() while true do end end, function() end) end", STEPS),
        ("local c = coroutine.create(function() while true do end end) return coroutine.resume(c)", STEPS),
        ("return coroutine.wrap(function() while true do end end)()", STEPS),
        ("while true do redis.call('get','k') end", CALLS),
        ("while true do redis.pcall('get','k') end", CALLS),
        ("while true do pcall(redis.call,'get','k') end", CALLS),
    ],
)
def test_scripts_are_no_way_around(script: str, what: str | None) -> None:
    told = missed(REDIS_86, "EVAL", script, "1", "k")
    assert [one.use.name for one in told][:1] == ([what] if what else [])
    assert all(("--on local" in one.remedy()) is (what in (STEPS, CALLS)) for one in told)


@pytest.mark.parametrize("server", [REDIS_70, REDIS_86, VALKEY_81, VALKEY_91], ids=str)
def test_no_command_of_any_server_is_taken_for_a_mistake(server: Server) -> None:
    told: list[Missing] = []
    for name in {name for table in _table().values() for name in table}:
        use = command_use(name)
        assert use is not None
        model = SimArm(server=server).model
        model.on_missing = told.append
        told.clear()
        answer = str(model.call(*name.split("|")))
        ours = [one.use.name for one in told] == [use.name]
        assert ours or use.opens or "nknown" not in answer, (name, answer)
        if use.is_in(server):
            assert ours or "nknown" not in answer, (name, answer)


def test_options_that_are_simulated_are_words_of_the_syntax() -> None:
    for command in COMMANDS.values():
        for one in (command, *command.children.values()):
            known = {
                option
                for table in _table().values()
                if one.name in table
                for option in table[one.name].options
            }
            assert one.options <= known, one.name


def test_the_table_is_of_servers_that_are_modelled() -> None:
    assert '"version": "8.6.3"' in TABLE.read_text(encoding="utf-8")
    assert set(_table()) == set(MODELLED)


@pytest.mark.parametrize(
    "text", ["redis@6.0", "redis@9.0", "redis", "valkey@7.2", "keydb@8.4", "redis@x", ""]
)
def test_other_servers_are_refused(text: str) -> None:
    with pytest.raises(LabError) as raised:
        modelled(text, "--server")
    assert raised.value.exit_code == ExitCode.USAGE
    assert raised.value.expected == "redis@6.2 to 8.6 or valkey@8.0 to 9.1"


def test_digests_are_those_of_a_server() -> None:
    text = b"lease-0123456789" * 200
    assert {size: xxh3_64_hexdigest(text[:size]) for size in DIGESTS} == DIGESTS


@pytest.mark.usefixtures("_patched")
@pytest.mark.parametrize("lock", ["OnValkey", "SwallowsRefusals"])
def test_lab_test_ends_without_a_verdict_and_names_what_is_needed(lock: str) -> None:
    with pytest.raises(NotModelled) as raised:
        examine(Asked(LOCKS + lock, "60s", jobs=1))
    assert raised.value.exit_code == ExitCode.UNKNOWN
    assert (
        f"uses DELIFEQ, which needs Valkey 9.0; the simulated nodes are {DEFAULT.words}" in raised.value.seen
    )
    assert raised.value.hint == "try --server valkey@9.0"


@pytest.mark.usefixtures("_patched")
def test_a_suite_for_a_lock_asks_it_on_that_server() -> None:
    assert kind_of(LOCKS + "OnValkey", server="valkey@9.0").reference == "single"
    with pytest.raises(NotModelled):
        kind_of(LOCKS + "OnValkey")


@pytest.mark.parametrize("lock", ["OnValkey", "SwallowsRefusals"])
def test_a_run_ends_unknown_whatever_the_lock_does_with_the_error(lock: str, tmp_path: Path) -> None:
    settings = [f"lock.name={LOCKS}{lock}"]
    run = run_in_simulation("healthy", 1, tmp_path, settings)
    assert run.mismatches == ()
    assert run.unknown == (
        f"the lock uses DELIFEQ, which needs Valkey 9.0; the simulated nodes are {DEFAULT.words}; "
        "try --server valkey@9.0",
    )
    right = run_in_simulation("healthy", 1, tmp_path, [*settings, "cluster.server=valkey@9.0"])
    assert (right.mismatches, right.unknown) == ((), ())


def test_lab_run_takes_the_server(lab: Lab) -> None:
    lock = ("--lock", f"{LOCKS}ByCondition")
    assert lab("run", "healthy", "--on", "sim", *lock, "--server", "redis@8.6").code == 0
    older = lab("run", "healthy", "--on", "sim", *lock, "--server", "redis@7.0")
    assert older.code == 3
    assert "the lock uses DELEX, which needs Redis 8.4; the simulated nodes are Redis 7.0" in older.out
    assert lab("run", "healthy", "--on", "sim", "--server", "redis@6.0").code == 2
    assert lab("run", "healthy", "--on", "local", "--server", "redis@8.4").code == 2


CHANGES = (
    "SET k a PX 1000000",
    "SET k b IFEQ a PX 5000000",
    "SET k c IFEQ z",
    "SET n a",
    "SET n b IFEQ a",
    "SET d a",
    "DELEX d IFEQ a",
    "SET e a",
    "DELEX e IFEQ b",
    "MSETNX m 1 o 2",
    "MSETEX 2 p 1 q 2 PX 900000",
    "HSET h f 1 g 2 i 3",
    "HPEXPIRE h 800000 FIELDS 2 f g",
    "HPEXPIRE h 0 FIELDS 1 i",
    "HSET r f 1",
    "HPEXPIRE r 700000 FIELDS 1 f",
    "RENAME r s",
)
SHOWN = (
    *(f"GET {key}" for key in ("k", "n", "d", "e", "m", "o", "p", "q")),
    *(f"PTTL {key}" for key in ("k", "n", "p", "h")),
    "HGETALL h",
    "HPTTL h FIELDS 3 f g i",
    "HPTTL s FIELDS 1 f",
)


def shown(arm: SimArm) -> list[object]:
    return [arm.model.call(*line.split()) for line in SHOWN]


@pytest.mark.parametrize("power_cut", [False, True])
def test_what_these_commands_change_is_kept_in_the_file(power_cut: bool) -> None:
    arm = SimArm("aof-always", server=REDIS_86)
    for line in CHANGES:
        arm.model.call(*line.split())
    before = shown(arm)
    assert before[:4] == [b"b", b"b", None, b"a"]
    arm.restart(power_cut=power_cut)
    assert shown(arm) == before


@pytest.mark.parametrize("joins_late", [False, True])
def test_what_these_commands_change_reaches_a_replica(joins_late: bool) -> None:
    master, replica = SimArm(server=REDIS_86), SimArm(server=REDIS_86, seed=8)
    if not joins_late:
        replica.follow(master)
    for line in CHANGES:
        master.model.call(*line.split())
    if joins_late:
        replica.follow(master)
    assert shown(replica) == shown(master)


def test_fields_are_gone_on_a_replica_when_its_clock_says_so_and_by_the_master_when_it_deletes_them() -> None:
    master, replica = SimArm(server=REDIS_86), SimArm(server=REDIS_86, seed=8)
    replica.follow(master)
    master.model.call("HSET", "h", "f", 1)
    master.model.call("HPEXPIRE", "h", 1000, "FIELDS", 1, "f")
    replica.jump(2000)
    assert (replica.model.call("HGET", "h", "f"), replica.model.call("EXISTS", "h")) == (None, 1)
    replica.jump(-2000)
    assert replica.model.call("HGET", "h", "f") == b"1"
    master.pass_ms(1200)
    assert (master.model.call("EXISTS", "h"), replica.model.call("EXISTS", "h")) == (0, 0)
