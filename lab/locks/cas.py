"""Redlock with a store that checks its token, as proposed in the reply to the critique."""

from __future__ import annotations

from typing import ClassVar

from lab.locks.redlock import Redlock


class CasRedlock(Redlock):
    """Redlock; its client announces the token of each grant to the store, which checks it at each write.

    Source: the reply of Redlock's author, "Is Redlock safe?" (2016): the token need not have an order, it is
    enough that it is unique and that the resource is changed by check-and-set. The lock itself is
    ``redlock``: the client announces (``lab.client.worker``), the store checks.

    What it guarantees: **no lost update** between clients that announce before they read, and write under
    their token. A write is accepted only if no other client announced after its own, so the intervals from
    announcement to accepted write never overlap, and each read lies inside its own interval. That holds
    however late a write arrives and even if two clients held the lock. The store must not lose the token.

    What it does not guarantee: *an order*. The last to announce wins, not the last to be granted: a client
    that was stopped between its grant and its announcement overtakes the current holder when it continues,
    and the holder's write is rejected. It does not help against clients that do not announce, or with
    resources that cannot store a token.
    """

    name: ClassVar[str] = "redlock-cas"
    announces_token: ClassVar[bool] = True
