"""What the tests of examining share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.search.runner import trials


@pytest.fixture
def _trials() -> Iterator[None]:
    """Let trials be run."""
    with trials():
        yield
