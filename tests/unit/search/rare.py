"""Locks with rare branches: one with a defect behind a rare branch, for what a search must notice."""

from __future__ import annotations

import contextlib
from typing import ClassVar

from lab.locks.base import Lease, LeaseLost
from lab.locks.single import Single
from tests.unit.search.rare_words import words_of


class GivesUp(Single):
    """After two extensions that failed it forgets whose key it deletes."""

    name: ClassVar[str] = "gives-up"
    _failed = 0

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """And count the failures."""
        try:
            return await super().extend(lease, ttl_ns)
        except LeaseLost as error:
            self._failed += 1
            raise LeaseLost(words_of(self._failed), no_effect=error.no_effect) from error

    async def _give_back(self, lease: Lease) -> bool:
        if self._failed < 2:
            return await super()._give_back(lease)
        deleted = await self._call("DEL", lease.key)
        return bool(deleted)


class Another(Single):
    """A lock of its own in the same file."""

    name: ClassVar[str] = "another"

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """As it is."""
        return await super().extend(lease, ttl_ns)


class Raises(GivesUp):
    """Cannot be made."""

    def __init__(self, *_: object) -> None:
        raise RuntimeError("no")


class Forks(GivesUp):
    """Has branches of other kinds."""

    def choose(self, what: object) -> str:
        """Tell what it is."""
        match what:
            case 0:
                return "none"
            case int():
                return "number"
        try:
            with self.opened():
                word = self.word(what)
        except TypeError:
            return "no word"
        else:
            return word
        finally:
            self.closed()

    def opened(self) -> contextlib.suppress:
        """Nothing is opened."""
        return contextlib.suppress(ValueError)

    def closed(self) -> None:
        """Nothing is closed."""

    def word(self, what: object) -> str:
        """The word. Raises ``TypeError``: it is none."""
        if isinstance(what, str):
            return what
        raise TypeError(what)

    def each(self, words: list[str]) -> list[str]:
        """Those that are not empty."""
        found = []
        for word in words:
            while not word:
                break

            def kept(word: str = word) -> str:
                return word

            if word:
                found.append(kept())
        return found
