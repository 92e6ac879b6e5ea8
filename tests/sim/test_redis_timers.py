"""What a simulated node does by itself, and when it says that it will."""

from __future__ import annotations

import pytest

from tests.sim.redis_arms import START_NS, SimArm, ask

SECOND_MS = 1000


def written(arm: SimArm) -> tuple[int, int]:
    disk = arm.disk()
    return disk.written, disk.synced


def test_an_idle_node_does_nothing_by_itself() -> None:
    arm = SimArm()
    arm.model.call("SET", "a", 1)
    assert arm.model.next_timer_ns() is None
    with_file = SimArm("aof-always")
    with_file.model.call("SET", "a", 1)
    assert with_file.model.next_timer_ns() is None


def test_a_key_is_removed_in_the_round_after_its_time() -> None:
    arm = SimArm()
    arm.pass_ms(30)
    arm.model.call("SET", "a", 1, "PX", 1234)
    assert arm.model.next_timer_ns() == 1_300_000_000
    arm.pass_ms(1234)
    assert arm.model.call("GET", "a") == b"1", "it is there until the clock shows more than its time"
    arm.pass_ms(1)
    assert arm.model.call("DBSIZE") == 1
    arm.pass_ms(100)
    assert (arm.model.call("DBSIZE"), arm.model.next_timer_ns()) == (0, None)


@pytest.mark.parametrize(("left_ms", "shown_s"), [(1, 0), (499, 0), (500, 1), (1_499, 1), (1_500, 2)])
def test_seconds_that_are_left_are_rounded(left_ms: int, shown_s: int) -> None:
    arm = SimArm()
    arm.model.call("SET", "a", 1, "PX", left_ms)
    assert (arm.model.call("TTL", "a"), arm.model.call("PTTL", "a")) == (shown_s, left_ms)


def test_a_step_of_the_clock_moves_the_round() -> None:
    arm = SimArm()
    arm.model.call("SET", "a", 1, "PX", 10_000)
    arm.jump(9_950)
    assert arm.model.next_timer_ns() == 100_000_000
    arm.jump(-9_950)
    assert arm.model.next_timer_ns() == 10_100_000_000


@pytest.mark.parametrize(("ppm", "expected_ms"), [(0, 10_100), (1_000_000, 5_100), (-500_000, 20_100)])
def test_a_drifting_clock_moves_the_round(ppm: int, expected_ms: int) -> None:
    arm = SimArm()
    arm.model.drift_ppm = ppm
    arm.model.call("SET", "a", 1, "PX", 10_000)
    assert arm.model.next_timer_ns() == expected_ms * 1_000_000


def test_a_clock_that_stands_still_is_looked_at_again() -> None:
    arm = SimArm()
    arm.model.drift_ppm = -1_000_000
    arm.model.call("SET", "a", 1, "PX", 10_000)
    assert arm.model.next_timer_ns() is not None


def test_an_early_tick_does_nothing_and_asks_for_a_later_one() -> None:
    arm = SimArm()
    arm.model.call("SET", "a", 1, "PX", 1_000)
    arm.model.call("DEL", "a")
    arm.model.call("SET", "b", 1, "PX", 5_000)
    due = arm.model.next_timer_ns()
    assert due == 1_100_000_000
    arm.pass_ms(1_100)
    assert arm.model.call("EXISTS", "b") == 1
    assert arm.model.next_timer_ns() == 5_100_000_000


def test_the_first_write_of_a_second_is_synced_at_once_and_the_next_one_at_its_end() -> None:
    """The rule that priming a node relies on: START_NS is 250 ms into a second."""
    arm = SimArm("aof-everysec")
    arm.pass_ms(750)
    arm.model.call("SET", "prime", 1)
    first, synced = written(arm)
    assert synced == first > 0
    arm.pass_ms(10)
    arm.model.call("SET", "victim", 1)
    second, synced = written(arm)
    assert (synced, second > first) == (first, True)
    arm.pass_ms(1_000)
    assert arm.wall_ns // 10**9 > (START_NS + 760 * 10**6) // 10**9, (
        "the second is over, the round is still to come"
    )
    assert written(arm) == (second, first)
    assert arm.model.durable(True).aof == arm.model.durable(False).aof[:first]  # type: ignore[index]
    arm.pass_ms(40)
    assert written(arm) == (second, second), "a round of its own, in the next second"


def test_a_write_in_the_second_of_the_start_waits_for_its_end() -> None:
    arm = SimArm("aof-everysec")
    arm.model.call("SET", "a", 1)
    assert written(arm)[1] == 0
    assert arm.model.next_timer_ns() == 800_000_000
    arm.pass_ms(800)
    assert written(arm)[1] == written(arm)[0]


def test_a_step_back_delays_the_sync_by_as_much() -> None:
    arm = SimArm("aof-everysec")
    arm.pass_ms(2_000)
    arm.model.call("SET", "a", 1)
    arm.jump(-60_000)
    arm.model.call("SET", "b", 1)
    arm.pass_ms(59_000)
    assert written(arm)[0] > written(arm)[1]
    arm.pass_ms(3_000)
    assert written(arm)[0] == written(arm)[1]


def test_who_waits_gives_up_in_time_by_the_wall_clock() -> None:
    arm = SimArm()
    first, second = arm.connect(), arm.connect()
    first.write(b"*3\r\n$5\r\nBLPOP\r\n$1\r\nl\r\n$2\r\n10\r\n")
    second.write(b"*3\r\n$5\r\nBLPOP\r\n$1\r\nl\r\n$1\r\n0\r\n")
    assert arm.model.next_timer_ns() == 10_000_000_000
    arm.jump(9_000)
    assert arm.model.next_timer_ns() == 1_000_000_000
    assert first.read() == "*-1"
    assert arm.model.next_timer_ns() is None
    assert second.read() == "nothing"


def test_a_replica_tries_again_every_second_and_a_killed_one_never() -> None:
    arm = SimArm()
    tried: list[int] = []

    def refuse(host: str, port: int) -> None:
        tried.append(arm.monotonic_ns)
        arm.model.master_link(lambda data: None).close()

    arm.model.connect_master = refuse
    ask(arm.connect(), "REPLICAOF", "127.0.0.1", "7")
    arm.pass_ms(2_500)
    assert tried == [0, 1_000_000_000, 2_000_000_000]
    assert arm.model.call("ROLE") == [b"slave", b"127.0.0.1", 7, b"connect", -1]
    arm.model.drop()
    assert arm.model.next_timer_ns() is None


def test_a_master_pings_its_replicas_and_they_acknowledge() -> None:
    master, replica = SimArm(), SimArm()
    replica.follow(master)
    before = master.model.replication.offset
    for _ in range(12):
        master.pass_ms(1_000)
        replica.pass_ms(1_000)
    (feed,) = master.model.replication.feeds.values()
    assert master.model.replication.offset == before + len(
        "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*1\r\n$4\r\nPING\r\n"
    )
    assert feed.acknowledged == replica.model.replication.offset == master.model.replication.offset


def test_a_replica_that_hears_nothing_for_a_minute_asks_again() -> None:
    arm = SimArm()
    tried: list[int] = []
    arm.model.connect_master = lambda host, port: tried.append(arm.monotonic_ns)
    ask(arm.connect(), "REPLICAOF", "127.0.0.1", "7")
    assert arm.model.call("ROLE") == [b"slave", b"127.0.0.1", 7, b"connecting", -1]
    arm.pass_ms(59_000)
    assert tried == [0]
    ended: list[str] = []
    arm.model.master_link(lambda data: None, closed=lambda: ended.append("ended"))
    arm.pass_ms(59_000)
    assert (tried, ended) == ([0], [])
    arm.pass_ms(2_000)
    assert (tried, ended) == ([0, 119_000_000_000], ["ended"])


def test_a_master_lets_go_of_a_replica_that_says_nothing_for_a_minute() -> None:
    master, replica = SimArm(), SimArm()
    replica.follow(master)
    master.pass_ms(55_000)
    assert len(master.model.replication.feeds) == 1
    master.pass_ms(10_000)
    assert len(master.model.replication.feeds) == 0


def test_a_replica_counts_only_once_it_has_loaded_what_it_was_sent() -> None:
    """WAIT would otherwise promise what a replica does not have yet."""
    master = SimArm()
    sent: list[bytes] = []
    replica = master.model.connect(sent.append)
    wire = master.connect()
    ask(wire, "SET", "a", "1")
    replica.feed(b"PSYNC ? -1\r\n")
    assert ask(wire, "WAIT", "1", "100") == ":0"
    assert ask(wire, "ROLE")[2] == []
    replica.feed(b"REPLCONF ACK %d\r\n" % master.model.replication.offset)
    assert ask(wire, "WAIT", "1", "100") == ":1"
    assert len(ask(wire, "ROLE")[2]) == 1


def test_a_replica_applies_a_transaction_only_when_it_is_whole() -> None:
    master, replica = SimArm(), SimArm("aof-always")
    replica.follow(master)
    held: list[bytes] = []
    (session,) = master.model.replication.feeds
    deliver, session._push = session._push, held.append
    ask(master.connect(), "EVAL", "redis.call('set','a',1) return redis.call('set','b',1)", "0")
    data = b"".join(held)
    assert deliver is not None
    for at in range(len(data) - 1):
        deliver(data[at : at + 1])
        assert replica.model.call("EXISTS", "a", "b") == 0
    deliver(data[-1:])
    assert replica.model.call("EXISTS", "a", "b") == 2
    assert replica.model.replication.offset == master.model.replication.offset
    replica.restart(power_cut=True)
    assert replica.model.call("EXISTS", "a", "b") == 2
