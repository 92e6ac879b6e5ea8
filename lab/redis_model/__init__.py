"""A Redis server as a model: pure, deterministic, without a process, a socket or a thread.

It keeps to Redis 6.2 to 8.6, or to Valkey 8.0 to 9.1 (checked against the versions that tests/sim/recorded
names, and against whichever server is at hand) as far as locks, the lab and the usual lock libraries use it:
commands and their error texts, RESP2 and RESP3, transactions, Lua scripts, channels and key events, MONITOR,
expiry by the wall clock, the append-only file with its syncs, and asynchronous replication; strings and their
bits, hashes, lists, sets, sorted sets and streams with what locks, queues and semaphores use. Each server has
the commands and options that its version has. What real servers have beside that is known by name (``known``)
and told to ``RedisModel.on_missing``. Time and entropy come from the caller; nothing here reads a real clock.

Between 7.0 and 8.6 the contract differs in the text of one error, in how scripts write numbers, and in BLPOP
in scripts; 6.2 also replicates durations, lacks conditions of EXPIRE, and words its errors differently.

Three ways to speak to it: ``RedisModel.call`` (one command, no wire), ``RedisModel.connect`` (bytes, as over
a socket), ``RedisModel.master_link`` (as a replica of another model). It does nothing by itself: ask
``next_timer_ns`` after whatever may have changed the answer, and call ``tick`` then.

What differs from a real server: a sync of the file and a snapshot for a replica take no time; all keys that
have expired go at the next round, and not a sample of them; SCAN and its like answer in one step, cursor 0;
hashes and sets come in the order in which they were filled; there is one database; no ACL, no cluster, no
modules, no RDB files and no rewrite of the append-only file, no partial synchronisation; what of
Lua is missing is said in ``scripts``.
"""

from __future__ import annotations

from lab.redis_model.master_link import MasterLink
from lab.redis_model.model import Durable, RedisModel
from lab.redis_model.reply import ErrorReply, Reply, Status
from lab.redis_model.session import Session

__all__ = ["Durable", "ErrorReply", "MasterLink", "RedisModel", "Reply", "Session", "Status"]
