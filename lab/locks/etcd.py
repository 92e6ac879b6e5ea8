"""A lock in etcd: a key with a lease; its fence is the revision at which the key was created."""

from __future__ import annotations

import base64
import contextlib
from typing import Any, ClassVar

import httpx

from lab.channel import NodeError
from lab.locks.base import Lease
from lab.locks.lease_options import NS_PER_S
from lab.locks.served import Served
from lab.locks.single import NotSent

NOT_FOUND = 404
OK = 200


class EtcdLock(Served):
    """A key that exists only while a lease does; the client that creates it holds the lock.

    Source: etcd's API ("concurrency": a key created under a lease, compared by its create revision). It uses
    the JSON gateway of each server.

    Every change goes through consensus and gets the next revision, so the revision at which the key was
    created grows with every grant, whatever happens to a minority of the servers: it is a fence. The lease
    ends by the leader's monotonic clock, and lasts longer when the leader changes: etcd does not grant the
    lock to two clients at once. But as with any lease, a client that is paused does not notice its end.

    Leases are in whole seconds, rounded up, and the servers grant none below two.
    """

    name: ClassVar[str] = "etcd"
    service: ClassVar[str] = "etcd"

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._http = httpx.AsyncClient(timeout=self._timeout_s, trust_env=False)
        self._leases: dict[str, str] = {}

    async def open(self) -> None:
        """Ask for the key space's revision, which opens a connection."""
        with contextlib.suppress(NodeError):
            await self._ask("kv/range", key=_coded("/"), count_only=True)

    async def close(self) -> None:
        """Disconnect."""
        await self._http.aclose()

    async def _take(self, key: str, token: str, ttl_ns: int) -> int | None:
        try:
            lease = (await self._ask("lease/grant", TTL=-(-ttl_ns // NS_PER_S)))["ID"]
        except NodeError as error:
            raise NotSent(str(error)) from error  # a lease without a key has no effect
        self._leases[token] = lease
        answer = await self._ask(
            "kv/txn",
            compare=[{"key": _coded(key), "target": "CREATE", "create_revision": "0"}],
            success=[{"request_put": {"key": _coded(key), "value": _coded(token), "lease": lease}}],
        )
        if answer.get("succeeded"):
            return int(answer["header"]["revision"])
        await self._undo(key, token)
        return None

    async def _undo(self, key: str, token: str) -> bool:
        """Revoke the lease: its key is deleted with it, and none can be created under it any more."""
        try:
            await self._ask("lease/revoke", ID=self._leases.pop(token))
        except NodeError:
            return False
        return True

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        answer = await self._ask("lease/keepalive", ID=self._leases[lease.token])
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    async def _give_back(self, lease: Lease) -> bool:
        answer = await self._ask(
            "kv/txn",
            compare=[{"key": _coded(lease.key), "target": "CREATE", "create_revision": str(lease.fence)}],
            success=[{"request_delete_range": {"key": _coded(lease.key)}}],
        )
        await self._undo(lease.key, lease.token)
        return bool(answer.get("succeeded"))

    async def _ask(self, call: str, **fields: Any) -> dict[str, Any]:
        """Ask the first server that can be reached.

        Raises:
            NotSent: none can be.
            NodeError: it did not answer, or with an error.
        """
        reason = "no server"
        for _ in self._nodes:
            node = self._nodes[0]
            try:
                answer = await self._http.post(f"http://{node.host}:{node.port}/v3/{call}", json=fields)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
                reason = f"{node.name} can't be reached: {error}"
                self._use_next_node()
                continue
            except httpx.HTTPError as error:
                self._use_next_node()
                raise NodeError(f"{node.name} did not answer: {type(error).__name__} {error}") from error
            if answer.status_code not in (OK, NOT_FOUND):
                self._use_next_node()
                raise NodeError(f"{node.name} answered {answer.status_code}: {answer.text.strip()[:200]}")
            data: dict[str, Any] = answer.json()
            return data
        raise NotSent(reason)

    def _use_next_node(self) -> None:
        self._nodes.append(self._nodes.pop(0))


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
