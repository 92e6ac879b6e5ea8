"""What was found on one version and run on another is said to be."""

from __future__ import annotations

import pytest

from lab.search.confirm import versions_differ


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        (["Redis 8.6.3"], ""),
        (["Redis 8.6.1"], ""),
        ([], ""),
        (["Redis 6.2.14"], "found in simulation as Redis 8.6.3, run on Redis 6.2.14"),
        (["Valkey 8.6.3"], "found in simulation as Redis 8.6.3, run on Valkey 8.6.3"),
    ],
)
def test_versions_that_differ_are_named(servers: list[str], said: str) -> None:
    assert versions_differ("simulated Redis 8.6.3", servers) == said
