"""Put the text of a mutant in the place of a module of the checker, whoever imports it."""

from __future__ import annotations

import os
from importlib import machinery

_ORIGINAL = os.environ.get("MUTATION_ORIGINAL")
_CHANGED = os.environ.get("MUTATION_CHANGED")

if _ORIGINAL and _CHANGED:
    _get_code = machinery.SourceFileLoader.get_code

    def get_code(self: machinery.SourceFileLoader, fullname: str) -> object:
        if self.path != _ORIGINAL:
            return _get_code(self, fullname)
        with open(_CHANGED or "", "rb") as file:  # noqa: PTH123  as little as possible is imported this early
            return compile(file.read(), _ORIGINAL, "exec", dont_inherit=True)

    machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
