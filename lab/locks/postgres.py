"""A lock in a transactional database: a row with an end, and a sequence for the fences."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, ClassVar

import psycopg

from lab.channel import NodeError
from lab.locks.base import Lease
from lab.locks.lease_options import NS_PER_MS
from lab.locks.served import Served
from lab.locks.single import NotSent

USER = "lab"
DATABASE = "postgres"
SCHEMA = """
SELECT pg_advisory_xact_lock(20160208);
CREATE TABLE IF NOT EXISTS leases (key text PRIMARY KEY, token text, ends timestamptz, fence bigint);
CREATE SEQUENCE IF NOT EXISTS fences;
"""
TAKE = """
INSERT INTO leases AS held (key, token, ends, fence)
VALUES (%(key)s, %(token)s, clock_timestamp() + %(ms)s * interval '1 ms', nextval('fences'))
ON CONFLICT (key) DO UPDATE
SET token = %(token)s, ends = clock_timestamp() + %(ms)s * interval '1 ms', fence = nextval('fences')
WHERE held.ends <= clock_timestamp()
RETURNING fence
"""
PROLONG = """
UPDATE leases SET ends = clock_timestamp() + %(ms)s * interval '1 ms'
WHERE key = %(key)s AND token = %(token)s AND ends > clock_timestamp() RETURNING fence
"""
GIVE_BACK = """
UPDATE leases SET ends = '-infinity', token = NULL
WHERE key = %(key)s AND token = %(token)s AND ends > clock_timestamp() RETURNING fence
"""


class PostgresLock(Served):
    """A row per key with its owner and end; a sequence gives each grant its number.

    Source: Kleppmann 2016: “At the very least, use a database with reasonable transactional guarantees.”

    One statement takes the row if its end has passed. The row is locked meanwhile, and the number is taken
    after that, so the fences of one key grow in the order of its grants. Ends are compared with the
    database's own clock: a step of it ends leases early or late. While the database is down, no client gets
    the lock.
    """

    name: ClassVar[str] = "postgres"
    service: ClassVar[str] = "postgres"

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._connection: psycopg.AsyncConnection[tuple[int]] | None = None
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Connect, and create the table if it does not exist."""
        with contextlib.suppress(NodeError):
            await self._connected()

    async def close(self) -> None:
        """Disconnect."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _take(self, key: str, token: str, ttl_ns: int) -> int | None:
        return await self._run(TAKE, key, token, ttl_ns)

    async def _undo(self, key: str, token: str) -> bool:
        """Release what may have been taken; an earlier request on another connection may still arrive."""
        with contextlib.suppress(NodeError):
            await self._run(GIVE_BACK, key, token)
        return False

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return await self._run(PROLONG, lease.key, lease.token, ttl_ns) is not None

    async def _give_back(self, lease: Lease) -> bool:
        return await self._run(GIVE_BACK, lease.key, lease.token) is not None

    async def _run(self, statement: str, key: str, token: str, ttl_ns: int = 0) -> int | None:
        """Run a statement that returns a fence, or nothing.

        Raises:
            NotSent: the database can't be reached.
            NodeError: it is unknown whether the statement was executed.
        """
        async with self._turn:
            connection = await self._connected()
            try:
                async with asyncio.timeout(self._timeout_s):
                    done = await connection.execute(
                        statement, {"key": key, "token": token, "ms": ttl_ns // NS_PER_MS}
                    )
                    row = await done.fetchone()
            except (psycopg.Error, TimeoutError) as error:
                await self.close()
                raise NodeError(f"the database did not answer: {type(error).__name__} {error}") from error
            return None if row is None else int(row[0])

    async def _connected(self) -> psycopg.AsyncConnection[tuple[int]]:
        """The connection, which is opened if there is none. Raises ``NotSent``."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        node = self._nodes[0]
        try:
            async with asyncio.timeout(self._timeout_s):
                self._connection = await psycopg.AsyncConnection.connect(
                    host=node.host, port=node.port, user=USER, dbname=DATABASE, autocommit=True
                )
                await self._connection.execute(SCHEMA)
        except (psycopg.Error, TimeoutError) as error:
            await self.close()
            raise NotSent(f"the database can't be reached: {type(error).__name__} {error}") from error
        return self._connection
