"""Which server runs, from what servers of several kinds really said."""

from __future__ import annotations

import pytest

from lab.substrates.product import product_of, refused_directive

REFUSED = """
*** FATAL CONFIG FILE ERROR{} ***
Reading the configuration file, at line 2
>>> 'set-proc-title "no"'
Bad directive or wrong number of arguments
"""


@pytest.mark.parametrize(
    ("reported", "product"),
    [
        ({"redis_version": "7.0.15", "redis_mode": "standalone"}, ("redis-server", "7.0.15")),
        (
            {"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.1"},
            ("valkey-server", "8.1.1"),
        ),
        ({"redis_version": "7.4.0", "dragonfly_version": "df-v1.27.1"}, ("dragonfly-server", "df-v1.27.1")),
        ({"redis_version": "7.2.4", "server_name": "other"}, ("redis-server", "7.2.4")),
        ({}, ("redis-server", "?")),
    ],
)
def test_a_server_is_recorded_under_its_own_name(reported: dict[str, str], product: tuple[str, str]) -> None:
    assert product_of(reported) == product


@pytest.mark.parametrize(("words", "who"), [(" (Redis 6.0.16)", "Redis 6.0.16"), ("", "this server")])
def test_a_server_that_is_too_old_names_the_setting(words: str, who: str) -> None:
    log = "some line before\n" + REFUSED.format(words) + "one after"
    assert refused_directive(log) == f"{who} does not know the setting 'set-proc-title \"no\"'"


def test_another_end_is_no_refusal() -> None:
    assert refused_directive("Could not create server TCP listening socket *:6379: bind: in use") is None
