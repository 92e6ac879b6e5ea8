"""A Redis Sentinel: watches a master, agrees with others that it is down, and promotes a replica.

It asks the master and its replicas with PING and INFO, and finds the other Sentinels by the hello messages
that each of them publishes there. A server that does not answer for ``down_after_ms`` is down by its own
judgement (``s_down``); a master is down (``o_down``) when ``quorum`` Sentinels say so. Then it starts a
failover in a new epoch and asks the others for their vote; who is voted for by a majority, and by at least
``quorum``, leads. The leader promotes the replica that has come furthest, lets the others follow it, and
publishes the new configuration with the epoch as its version: Sentinels that hear of a later version take it
over. A former master that is back is made a replica after it has been seen as a master for eight seconds.

As in a real one a round takes place ten to nineteen times a second, how often is drawn anew each time; the
periods of PING, INFO and hello messages, the order within a round, and the names of the events are those of
Redis. A round that comes more than two seconds late begins the mode TILT, in which it only watches for 30 s.

Left out: scripts, passwords, several masters, SCRIPT KILL, and ``master-reboot-down-after-period``.

Source: Redis documentation, "High availability with Redis Sentinel", and the behaviour of Redis 7.4 and 8.2.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from lab.redis_model.model import RedisModel
from lab.redis_model.registry import Command, NoSuchCommand, find
from lab.redis_model.reply import RedisError
from lab.redis_model.sentinel_commands import commands_of_a_sentinel
from lab.redis_model.watched import HELLO, PARALLEL_SYNCS, PRIORITY, Conversation, Watched
from lab.servers import DEFAULT, Server

INFO_EVERY_MS: Final = 10_000
CLOSE_INFO_EVERY_MS: Final = 1_000
"""How often replicas are asked during a failover, and while they do not hear their master."""
PING_EVERY_MS: Final = 1_000
ASK_EVERY_MS: Final = 1_000
PUBLISH_EVERY_MS: Final = 2_000
TILT_AFTER_MS: Final = 2_000
TILT_LASTS_MS: Final = 30_000
RECONFIGURED_WITHIN_MS: Final = 10_000
KEEP_LINK_MS: Final = 15_000
"""A connection that is younger than this is not made anew, though nothing comes over it."""
ELECTED_WITHIN_MS: Final = 10_000
DESYNC_MS: Final = 1_000
PENDING_MAX: Final = 100
ROUNDS_PER_S: Final = (10, 19)
State = Literal[
    "none",
    "wait_start",
    "select_slave",
    "send_slaveof_noone",
    "wait_promotion",
    "reconf_slaves",
    "update_config",
]
PROMOTED_STATES: Final = ("reconf_slaves", "update_config")
GOOD_ANSWERS: Final = ("PONG", "LOADING", "MASTERDOWN")


@dataclass(frozen=True, slots=True)
class SentinelSettings:
    """What its configuration file says: where it is, and the master that it watches."""

    host: str
    port: int
    service: str
    master: tuple[str, int]
    quorum: int
    down_after_ms: int
    failover_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a Sentinel has written into its configuration file: epochs, and whom it knows."""

    identity: str
    epoch: int
    master: tuple[str, int]
    config_epoch: int
    leader_epoch: int
    replicas: tuple[tuple[str, int], ...]
    sentinels: tuple[tuple[str, int, str], ...]
    """Host, port and identity of each."""


Connect = Callable[[str, int, Conversation], None]


class SentinelModel(RedisModel):
    """One Sentinel; as a server it answers clients, and it makes connections of its own by ``connect``."""

    def __init__(
        self,
        name: str,
        settings: SentinelSettings,
        *,
        wall_ns: Callable[[], int],
        monotonic_ns: Callable[[], int],
        random: random.Random,
        connect: Connect,
        process_id: int = 1,
        remembered: Remembered | None = None,
        server: Server = DEFAULT,
    ) -> None:
        super().__init__(
            name,
            wall_ns=wall_ns,
            monotonic_ns=monotonic_ns,
            persistence="none",
            random=random,
            process_id=process_id,
            port=settings.port,
            server=server,
        )
        self.mode = "sentinel"
        self.commands = commands_of_a_sentinel(server)
        self.settings, self._connect = settings, connect
        now_ms = self.now_ms
        known = remembered or Remembered(f"{random.getrandbits(160):040x}", 0, settings.master, 0, 0, (), ())
        self.identity, self.epoch, self.config_epoch = known.identity, known.epoch, known.config_epoch
        self.master = Watched("master", *known.master, now_ms)
        self.master.leader_epoch = known.leader_epoch
        self.replicas = {address: Watched("slave", *address, now_ms) for address in known.replicas}
        self.sentinels = {
            identity: Watched("sentinel", host, port, now_ms, identity)
            for host, port, identity in known.sentinels
        }
        self.state: State = "none"
        self._state_ms = self._started_ms = 0
        self._failover_epoch = 0
        self.promoted: Watched | None = None
        self.tilt_ms = 0
        """Since when it only watches; 0: it acts."""
        self._round_ms = now_ms
        self._next_round_ns = monotonic_ns()

    def remembered(self) -> Remembered:
        """What its configuration file says now."""
        return Remembered(
            self.identity,
            self.epoch,
            self.master.address,
            self.config_epoch,
            self.master.leader_epoch,
            tuple(self.replicas),
            tuple((each.host, each.port, each.run_id) for each in self.sentinels.values()),
        )

    @property
    def now_ms(self) -> int:
        """Its wall clock."""
        return self.wall_ns() // 1_000_000

    # As a server.

    def find(self, args: list[bytes]) -> Command:
        """Return the command that is meant. Raises ``RedisError``: a Sentinel keeps no keys."""
        try:
            return find(self.commands, args)
        except NoSuchCommand:
            if args[0].upper() == b"SENTINEL" and len(args) > 1:
                self.miss(f"SENTINEL {args[1].decode(errors='replace')}")
            raise

    def next_timer_ns(self) -> int | None:
        """When the next round is, by the monotonic clock."""
        return None if self.stopped else self._next_round_ns

    def tick(self) -> None:
        """Make a round, if it is time."""
        if self.stopped or self.monotonic_ns() < self._next_round_ns:
            return
        self.read_clock()
        self._round()
        self._next_round_ns = self.monotonic_ns() + 1_000_000_000 // self.random.randint(*ROUNDS_PER_S)
        self.settle()

    def drop(self) -> None:
        """It was killed."""
        super().drop()
        for watched in self._everybody():
            watched.links.end()

    def event(self, name: str, text: str) -> None:
        """Publish an event to whoever listens."""
        self.channels.publish(name.encode(), text.encode())

    def described(self, watched: Watched) -> str:
        """A server as events name it."""
        text = f"{watched.kind} {self.name_of(watched)} {watched.host} {watched.port}"
        if watched is self.master:
            return text
        return f"{text} @ {self.settings.service} {self.master.host} {self.master.port}"

    def name_of(self, watched: Watched) -> str:
        """By which name it knows a server."""
        names = {"master": self.settings.service, "sentinel": watched.run_id}
        return names.get(watched.kind, f"{watched.host}:{watched.port}")

    def _tell(self, name: str, watched: Watched, more: str = "") -> None:
        self.event(name, self.described(watched) + more)

    # Watching.

    def _everybody(self) -> Iterator[Watched]:
        yield self.master
        yield from self.replicas.values()
        yield from self.sentinels.values()

    def _round(self) -> None:
        now_ms = self.now_ms
        if not 0 <= now_ms - self._round_ms <= TILT_AFTER_MS:
            self.tilt_ms = now_ms
            self.event("+tilt", "#tilt mode entered")
        self._round_ms = now_ms
        for watched in list(self._everybody()):
            self._watch(watched)
        if self.state == "update_config":
            self._switch_to_promoted()

    def _watch(self, watched: Watched) -> None:
        self._reconnect(watched)
        self._ask_regularly(watched)
        if self.tilt_ms:
            if self.now_ms - self.tilt_ms < TILT_LASTS_MS:
                return
            self.tilt_ms = 0
            self.event("-tilt", "#tilt mode exited")
        self._judge(watched)
        if watched is self.master:
            self._count_judgements()
            if self._starts_failover():
                self._ask_for_judgements(at_once=True)
            self._go_on()
            self._ask_for_judgements()

    def _reconnect(self, watched: Watched) -> None:
        links, now_ms = watched.links, self.now_ms
        if links.is_whole or now_ms - links.tried_ms < PING_EVERY_MS:
            return
        links.tried_ms = now_ms
        if links.commands is None:
            lost = partial(self._lost, watched, "commands")
            conversation = links.commands = Conversation(self.settle, lost)
            links.commands_since_ms = now_ms
            conversation.ask("CLIENT", "SETNAME", f"sentinel-{self.identity[:8]}-cmd")
            self._ping(watched)
            self._connect(*watched.address, conversation)
        if links.messages is None and watched.kind != "sentinel":
            lost = partial(self._lost, watched, "messages")
            conversation = Conversation(self.settle, lost, partial(self._heard, watched))
            links.messages = conversation
            links.messages_since_ms = now_ms
            conversation.ask("CLIENT", "SETNAME", f"sentinel-{self.identity[:8]}-pubsub")
            conversation.ask("SUBSCRIBE", HELLO)
            self._connect(*watched.address, conversation)
        links.is_whole = True

    def _lost(self, watched: Watched, which: Literal["commands", "messages"]) -> None:
        setattr(watched.links, which, None)
        watched.links.is_whole = False

    def _ask_regularly(self, watched: Watched) -> None:
        links, now_ms = watched.links, self.now_ms
        if not links.is_whole or links.commands is None or links.commands.pending >= PENDING_MAX:
            return
        closely = watched.kind == "slave" and (
            self.master.flags & {"o_down", "failover_in_progress"} or watched.link_down_ms
        )
        info_every_ms = CLOSE_INFO_EVERY_MS if closely else INFO_EVERY_MS
        if watched.kind != "sentinel" and (not watched.info_ms or now_ms - watched.info_ms > info_every_ms):
            links.commands.ask("INFO", then=partial(self._informed, watched))
        ping_every_ms = min(self.settings.down_after_ms, PING_EVERY_MS)
        if now_ms - links.answered_ms > ping_every_ms and now_ms - links.ping_ms > ping_every_ms / 2:
            self._ping(watched)
        if now_ms - watched.published_ms > PUBLISH_EVERY_MS:
            links.commands.ask("PUBLISH", HELLO, self._hello(), then=partial(self._published, watched))

    def _ping(self, watched: Watched) -> None:
        links, now_ms = watched.links, self.now_ms
        assert links.commands is not None
        links.commands.ask("PING", then=partial(self._answered, watched))
        links.ping_ms = now_ms
        links.unanswered_ms = links.unanswered_ms or now_ms

    def _answered(self, watched: Watched, reply: Any) -> None:
        links = watched.links
        links.answered_ms = self.now_ms
        text = reply.decode() if isinstance(reply, bytes) else str(reply)
        if text.startswith(GOOD_ANSWERS):
            links.available_ms, links.unanswered_ms = self.now_ms, 0

    def _published(self, watched: Watched, reply: Any) -> None:
        if isinstance(reply, int):
            watched.published_ms = self.now_ms

    def _hello(self) -> str:
        own = f"{self.settings.host},{self.settings.port},{self.identity},{self.epoch}"
        host, port = self.current_master
        return f"{own},{self.settings.service},{host},{port},{self.config_epoch}"

    @property
    def current_master(self) -> tuple[str, int]:
        """The master as it names it to clients: the promoted replica, as soon as that says it is one."""
        if self.promoted is not None and self.state in PROMOTED_STATES:
            return self.promoted.address
        return self.master.address

    def _judge(self, watched: Watched) -> None:
        """See whether a server is down, and give connections up over which nothing comes."""
        links, now_ms = watched.links, self.now_ms
        silent_ms = 0
        if links.unanswered_ms:
            silent_ms = now_ms - links.unanswered_ms
        elif not links.is_whole:
            silent_ms = now_ms - links.available_ms
        down_after_ms = self.settings.down_after_ms
        if (
            links.commands is not None
            and now_ms - links.commands_since_ms > KEEP_LINK_MS
            and links.unanswered_ms
            and now_ms - links.unanswered_ms > down_after_ms / 2
            and now_ms - links.answered_ms > down_after_ms / 2
        ):
            links.commands.end()
            self._lost(watched, "commands")
        if (
            links.messages is not None
            and now_ms - links.messages_since_ms > KEEP_LINK_MS
            and now_ms - links.message_ms > 3 * PUBLISH_EVERY_MS
        ):
            links.messages.end()
            self._lost(watched, "messages")
        says_replica = watched is self.master and watched.role == "slave"
        says_it_for_ms = now_ms - watched.role_since_ms
        if silent_ms > down_after_ms or (says_replica and says_it_for_ms > down_after_ms + 2 * INFO_EVERY_MS):
            if "s_down" not in watched.flags:
                self._tell("+sdown", watched)
                watched.down_since_ms = now_ms
                watched.flags.add("s_down")
        elif "s_down" in watched.flags:
            self._tell("-sdown", watched)
            watched.flags.discard("s_down")

    # What servers say.

    def _informed(self, watched: Watched, reply: Any) -> None:
        """Take what INFO says of a server, and act on it."""
        if not isinstance(reply, bytes):
            return
        now_ms = self.now_ms
        about = dict(line.split(":", 1) for line in reply.decode().split("\r\n") if ":" in line)
        if (run_id := about.get("run_id", "")) != watched.run_id:
            if watched.run_id:
                self._tell("+reboot", watched)
            watched.run_id = run_id
        if watched is self.master:
            for name, text in about.items():
                if name.startswith("slave") and name[5:].isdigit():
                    replica = dict(part.split("=", 1) for part in text.split(","))
                    self._know_replica(replica["ip"], int(replica["port"]))
        watched.link_down_ms = int(about.get("master_link_down_since_seconds", "0")) * 1000
        role: Literal["master", "slave"] = "master" if about.get("role") == "master" else "slave"
        if role == "slave":
            follows = about["master_host"], int(about["master_port"])
            if follows != watched.follows:
                watched.follows, watched.follows_since_ms = follows, now_ms
            watched.hears_master = about.get("master_link_status") == "up"
            watched.priority = int(about.get("slave_priority", PRIORITY))
            watched.offset = int(about.get("slave_repl_offset", 0))
        watched.info_ms = now_ms
        if role != watched.role:
            watched.role, watched.role_since_ms = role, now_ms
            if role == "slave":
                watched.follows_since_ms = now_ms
            sign = "+" if role == watched.kind else "-"
            self._tell(f"{sign}role-change", watched, f" new reported role is {role}")
        if self.tilt_ms or watched.kind != "slave":
            return  # a master that says it is a replica is held to be down after a time
        if role == "master":
            self._see_a_master(watched)
            return
        if watched.follows != self.master.address:
            self._correct(watched)
        self._see_a_reconfiguration(watched)

    def _know_replica(self, host: str, port: int) -> None:
        if (host, port) not in self.replicas:
            replica = self.replicas[host, port] = Watched("slave", host, port, self.now_ms)
            self._tell("+slave", replica)

    def _see_a_master(self, replica: Watched) -> None:
        """A replica says that it is a master: it was promoted, or is made a replica after a while."""
        now_ms = self.now_ms
        if "promoted" in replica.flags:
            if self.state == "wait_promotion":
                self.config_epoch = self._failover_epoch
                self._enter("reconf_slaves")
                self._tell("+promoted-slave", replica)
                self._tell("+failover-state-reconf-slaves", self.master)
                for watched in self._everybody():  # the new configuration is published at once
                    watched.published_ms -= PUBLISH_EVERY_MS + 1
            return
        wait_ms = 4 * PUBLISH_EVERY_MS
        if (
            self._master_is_sound
            and replica.was_up_for(wait_ms, now_ms)
            and now_ms - replica.role_since_ms > wait_ms
        ):
            self._follow(replica, self.master.address)
            self._tell("+convert-to-slave", replica)

    def _correct(self, replica: Watched) -> None:
        """A replica follows somebody else than the master: change that, after a while."""
        now_ms, wait_ms = self.now_ms, self.settings.failover_timeout_ms
        if (
            self._master_is_sound
            and replica.was_up_for(wait_ms, now_ms)
            and now_ms - replica.follows_since_ms > wait_ms
        ):
            self._follow(replica, self.master.address)
            self._tell("+fix-slave-config", replica)

    def _see_a_reconfiguration(self, replica: Watched) -> None:
        flags = replica.flags
        if "reconf_sent" in flags and self.promoted is not None and replica.follows == self.promoted.address:
            flags.discard("reconf_sent")
            flags.add("reconf_inprog")
            self._tell("+slave-reconf-inprog", replica)
        if "reconf_inprog" in flags and replica.hears_master:
            flags.discard("reconf_inprog")
            flags.add("reconf_done")
            self._tell("+slave-reconf-done", replica)

    @property
    def _master_is_sound(self) -> bool:
        master = self.master
        recent = self.now_ms - master.info_ms < 2 * INFO_EVERY_MS
        return master.role == "master" and not master.is_down and recent

    def _follow(self, watched: Watched, master: tuple[str, int] | None) -> None:
        """Let a server follow another, or none, note that in its file, and end the connections of clients."""
        commands = watched.links.commands
        assert commands is not None
        commands.ask("MULTI")
        commands.ask("SLAVEOF", *(("NO", "ONE") if master is None else master))
        commands.ask("CONFIG", "REWRITE")
        commands.ask("CLIENT", "KILL", "TYPE", "normal")
        commands.ask("CLIENT", "KILL", "TYPE", "pubsub")
        commands.ask("EXEC")

    def _heard(self, watched: Watched, reply: Any) -> None:
        """A message came, or the answer to SUBSCRIBE."""
        watched.links.message_ms = self.now_ms
        if isinstance(reply, list) and len(reply) == 3 and reply[0] == b"message":
            text = reply[2].decode()
            if self.identity not in text:
                self.take_hello(text)

    def take_hello(self, text: str) -> None:
        """Learn of another Sentinel, of a later epoch, of a later configuration."""
        words = text.split(",")
        if len(words) != 8 or words[4] != self.settings.service:
            return
        host, port, identity = words[0], int(words[1]), words[2]
        other = self.sentinels.get(identity)
        if other is None or other.address != (host, port):
            other = self._know_sentinel(host, port, identity)
        self._know_epoch(int(words[3]))
        config_epoch, address = int(words[7]), (words[5], int(words[6]))
        if config_epoch > self.config_epoch:
            self.config_epoch = config_epoch
            if address != self.master.address:
                self._tell("+config-update-from", other)
                self._switch(address)
        other.hello_ms = self.now_ms

    def _know_sentinel(self, host: str, port: int, identity: str) -> Watched:
        moved = self.sentinels.pop(identity, None)
        if moved is not None:
            moved.links.end()
            self._tell("+sentinel-address-switch", self.master, f" ip {host} port {port} for {identity}")
        for former in [one for one in self.sentinels.values() if one.address == (host, port)]:
            self._tell("+sentinel-invalid-addr", former)
            former.links.end()
            del self.sentinels[former.run_id]
        other = self.sentinels[identity] = Watched("sentinel", host, port, self.now_ms, identity)
        if moved is None:
            self._tell("+sentinel", other)
        return other

    def _know_epoch(self, epoch: int) -> None:
        if epoch > self.epoch:
            self.epoch = epoch
            self.event("+new-epoch", str(epoch))

    # Agreeing that the master is down, and electing a leader.

    def _count_judgements(self) -> None:
        master = self.master
        count = 0
        if "s_down" in master.flags:
            count = 1 + sum("master_down" in other.flags for other in self.sentinels.values())
        if count >= self.settings.quorum:
            if "o_down" not in master.flags:
                self._tell("+odown", master, f" #quorum {count}/{self.settings.quorum}")
                master.flags.add("o_down")
                master.agreed_since_ms = self.now_ms
        elif "o_down" in master.flags:
            self._tell("-odown", master)
            master.flags.discard("o_down")

    def _ask_for_judgements(self, *, at_once: bool = False) -> None:
        """Ask the others whether the master is down, and in a failover for their vote."""
        now_ms = self.now_ms
        voter = self.identity if self.state != "none" else "*"
        for other in self.sentinels.values():
            silent_ms = now_ms - other.opinion_ms
            if silent_ms > 5 * ASK_EVERY_MS:
                other.flags.discard("master_down")
                other.leader = ""
            if "s_down" not in self.master.flags or not other.links.is_whole:
                continue
            if at_once or silent_ms >= ASK_EVERY_MS:
                assert other.links.commands is not None
                other.links.commands.ask(
                    "SENTINEL",
                    "is-master-down-by-addr",
                    *self.master.address,
                    self.epoch,
                    voter,
                    then=partial(self._take_judgement, other),
                )

    def _take_judgement(self, other: Watched, reply: Any) -> None:
        if not (isinstance(reply, list) and len(reply) == 3):
            return
        down, leader, epoch = reply
        other.opinion_ms = self.now_ms
        if down:
            other.flags.add("master_down")
        else:
            other.flags.discard("master_down")
        if leader != b"*":
            other.leader, other.leader_epoch = leader.decode(), epoch

    def judgement(self, address: tuple[str, int], epoch: int, voter: str) -> list[Any]:
        """The answer to another Sentinel: whether that master is down, and the vote if one is asked for."""
        known = address == self.master.address
        down = known and "s_down" in self.master.flags and not self.tilt_ms
        leader, leader_epoch = "", 0
        if known and voter != "*":
            leader, leader_epoch = self._vote(epoch, voter)
        return [int(down), (leader or "*").encode(), leader_epoch]

    def _vote(self, epoch: int, candidate: str) -> tuple[str, int]:
        """Vote, once in an epoch; return whom this Sentinel has voted for, and in which epoch."""
        self._know_epoch(epoch)
        master = self.master
        if master.leader_epoch < epoch and self.epoch <= epoch:
            master.leader, master.leader_epoch = candidate, self.epoch
            self.event("+vote-for-leader", f"{candidate} {self.epoch}")
            if candidate != self.identity:  # this one starts no failover for a while
                self._started_ms = self._desynchronised_ms()
        return master.leader, master.leader_epoch

    def _leader(self) -> str:
        """Who was elected in the epoch of this failover; empty: nobody so far."""
        epoch = self._failover_epoch
        votes = Counter(
            other.leader
            for other in self.sentinels.values()
            if other.leader and other.leader_epoch == self.epoch
        )
        first = votes.most_common(1)
        own, own_epoch = self._vote(epoch, first[0][0] if first else self.identity)
        if own and own_epoch == epoch:
            votes[own] += 1
        winner, count = votes.most_common(1)[0] if votes else ("", 0)
        majority = (len(self.sentinels) + 1) // 2 + 1
        return winner if count >= max(majority, self.settings.quorum) else ""

    def _desynchronised_ms(self) -> int:
        return self.now_ms + self.random.randrange(DESYNC_MS)

    # The failover.

    def _starts_failover(self) -> bool:
        master = self.master
        if "o_down" not in master.flags or "failover_in_progress" in master.flags:
            return False
        if self.now_ms - self._started_ms < 2 * self.settings.failover_timeout_ms:
            return False
        self._start()
        return True

    def _start(self) -> None:
        self.master.flags.add("failover_in_progress")
        self.epoch += 1
        self._failover_epoch = self.epoch
        self.event("+new-epoch", str(self.epoch))
        self._tell("+try-failover", self.master)
        self._started_ms = self._desynchronised_ms()
        self._enter("wait_start")

    def force(self) -> None:
        """Start a failover though the master is not down. Raises ``RedisError``."""
        if "failover_in_progress" in self.master.flags:
            raise RedisError("INPROG Failover already in progress")
        if self._best_replica() is None:
            raise RedisError("NOGOODSLAVE No suitable replica to promote")
        self._start()
        self.master.flags.add("force_failover")

    def _enter(self, state: State) -> None:
        self.state, self._state_ms = state, self.now_ms

    def _go_on(self) -> None:
        """Take the next step of a failover, if it is time."""
        if self.state == "wait_start":
            self._wait_for_election()
        elif self.state == "select_slave":
            self._select()
        elif self.state == "send_slaveof_noone":
            self._promote()
        elif self.state == "wait_promotion":
            self._abort_if_too_long()  # INFO of the replica leads on
        elif self.state == "reconf_slaves":
            self._reconfigure()

    def _wait_for_election(self) -> None:
        master = self.master
        if self._leader() != self.identity and "force_failover" not in master.flags:
            patience_ms = min(ELECTED_WITHIN_MS, self.settings.failover_timeout_ms)
            if self.now_ms - self._started_ms > patience_ms:
                self._abort("-failover-abort-not-elected")
            return
        self._tell("+elected-leader", master)
        self._enter("select_slave")
        self._tell("+failover-state-select-slave", master)

    def _select(self) -> None:
        replica = self._best_replica()
        if replica is None:
            self._abort("-failover-abort-no-good-slave")
            return
        self._tell("+selected-slave", replica)
        replica.flags.add("promoted")
        self.promoted = replica
        self._enter("send_slaveof_noone")
        self._tell("+failover-state-send-slaveof-noone", replica)

    def _best_replica(self) -> Watched | None:
        """The replica to promote: by priority, then the one that has come furthest. None: none is fit."""
        now_ms, master = self.now_ms, self.master
        is_down = "s_down" in master.flags
        bearable_ms = 10 * self.settings.down_after_ms + (now_ms - master.down_since_ms if is_down else 0)
        recent_ms = 5 * PING_EVERY_MS if is_down else 3 * INFO_EVERY_MS
        fit = [
            replica
            for replica in self.replicas.values()
            if not replica.is_down
            and replica.links.is_whole
            and now_ms - replica.links.available_ms <= 5 * PING_EVERY_MS
            and replica.priority
            and now_ms - replica.info_ms <= recent_ms
            and replica.link_down_ms <= bearable_ms
        ]
        return min(fit, key=lambda each: (each.priority, -each.offset, each.run_id), default=None)

    def _promote(self) -> None:
        assert self.promoted is not None
        if not self.promoted.links.is_whole:
            self._abort_if_too_long()
            return
        self._follow(self.promoted, None)
        self._tell("+failover-state-wait-promotion", self.promoted)
        self._enter("wait_promotion")

    def _abort_if_too_long(self) -> None:
        if self.now_ms - self._state_ms > self.settings.failover_timeout_ms:
            self._abort("-failover-abort-slave-timeout")

    def _abort(self, why: str) -> None:
        self._tell(why, self.master)
        self.master.flags -= {"failover_in_progress", "force_failover"}
        self._enter("none")
        if self.promoted is not None:
            self.promoted.flags.discard("promoted")
            self.promoted = None

    def _reconfigure(self) -> None:
        """Let the other replicas follow the promoted one, one after the other."""
        assert self.promoted is not None
        busy = sum(bool(each.flags & {"reconf_sent", "reconf_inprog"}) for each in self.replicas.values())
        for replica in self._not_reconfigured():
            if busy >= PARALLEL_SYNCS:
                break
            waited_ms = self.now_ms - replica.reconfigured_ms
            if "reconf_sent" in replica.flags and waited_ms > RECONFIGURED_WITHIN_MS:
                self._tell("-slave-reconf-sent-timeout", replica)
                replica.flags.discard("reconf_sent")
                replica.flags.add("reconf_done")
            if replica.flags & {"reconf_sent", "reconf_inprog"} or not replica.links.is_whole:
                continue
            self._follow(replica, self.promoted.address)
            replica.flags.add("reconf_sent")
            replica.reconfigured_ms = self.now_ms
            self._tell("+slave-reconf-sent", replica)
            busy += 1
        self._end_if_done()

    def _not_reconfigured(self) -> list[Watched]:
        return [each for each in self.replicas.values() if not each.flags & {"promoted", "reconf_done"}]

    def _end_if_done(self) -> None:
        promoted = self.promoted
        if promoted is None or "s_down" in promoted.flags:
            return
        too_long = self.now_ms - self._state_ms > self.settings.failover_timeout_ms
        if too_long:
            self._tell("+failover-end-for-timeout", self.master)
        elif any("s_down" not in replica.flags for replica in self._not_reconfigured()):
            return
        self._tell("+failover-end", self.master)
        self._enter("update_config")
        if too_long:
            for replica in self._not_reconfigured():
                if "reconf_sent" not in replica.flags and replica.links.is_whole:
                    self._follow(replica, promoted.address)
                    self._tell("+slave-reconf-sent-be", replica)
                    replica.flags.add("reconf_sent")

    def _switch_to_promoted(self) -> None:
        self._switch(self.promoted.address if self.promoted is not None else self.master.address)

    def _switch(self, address: tuple[str, int]) -> None:
        """Watch another master from now on; the former one is its replica."""
        old = self.master
        where = f"{old.host} {old.port} {address[0]} {address[1]}"
        self.event("+switch-master", f"{self.settings.service} {where}")
        addresses = [each for each in self.replicas if each != address]
        if address != old.address:
            addresses.append(old.address)
        self._forget((old, *self.replicas.values()))
        now_ms = self.now_ms
        self.master = Watched("master", *address, now_ms)
        # As in Redis: what was known of the age of INFO and hello messages stays, the vote is forgotten.
        self.master.info_ms, self.master.published_ms = old.info_ms, old.published_ms
        self.master.leader_epoch = old.leader_epoch
        self.master.links.tried_ms = old.links.tried_ms
        self.state, self._state_ms, self._started_ms, self.promoted = "none", 0, 0, None
        self.replicas = {}
        for host, port in addresses:
            self._know_replica(host, port)

    def _forget(self, several: Iterable[Watched]) -> None:
        for watched in several:
            watched.links.end()
