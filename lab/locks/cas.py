"""Redlock whose token the protected resource knows: the reply to the critique."""

from __future__ import annotations

from typing import ClassVar

from lab.locks.redlock import Redlock


class CasRedlock(Redlock):
    """Redlock; its client tells the store the token of each grant, and the store checks it at each write.

    Source: the reply of Redlock's author, "Is Redlock safe?" (2016): the token need not have an order, it is
    enough that it is unique and that the resource is changed by check-and-set. The lock itself is
    ``redlock``: announcing is the client's business (``lab.client.worker``), checking the store's.

    What it gives: **no lost update** between clients that announce before they read and write under their
    token. A write is accepted only if nobody announced since its client did, so the spans from announcement
    to accepted write never overlap, and each read lies inside its own span. That holds however late a write
    arrives and even if the lock was held twice. The store must not forget the token.

    What it does not give: *an order*. The last to announce wins, not the last to be granted: a client that
    was stopped between its grant and its announcement overtakes the rightful holder when it wakes up, and
    the holder's write is rejected. Nor does it help against clients that do not announce, or with resources
    that cannot keep a token.
    """

    name: ClassVar[str] = "redlock-cas"
    announces_token: ClassVar[bool] = True
