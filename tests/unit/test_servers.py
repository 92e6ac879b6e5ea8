"""Which server runs, from what servers of several kinds really said, and ranges of versions."""

from __future__ import annotations

import pytest

from lab.servers import Server, ServerRange, refused_directive, server_in, server_of

REFUSED = """
*** FATAL CONFIG FILE ERROR{} ***
Reading the configuration file, at line 2
>>> 'set-proc-title "no"'
Bad directive or wrong number of arguments
"""


@pytest.mark.parametrize(
    ("reported", "server"),
    [
        ({"redis_version": "7.0.15", "redis_mode": "standalone"}, "redis@7.0.15"),
        ({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.1"}, "valkey@8.1.1"),
        ({"redis_version": "7.4.0", "dragonfly_version": "df-v1.27.1"}, "dragonfly@df-v1.27.1"),
        ({"redis_version": "7.2.4", "server_name": "other"}, "redis@7.2.4"),
        ({}, "redis@?"),
    ],
)
def test_a_server_is_recorded_under_its_own_name(reported: dict[str, str], server: str) -> None:
    assert str(server_of(reported)) == server
    assert Server.parse(server) == server_of(reported)


def test_its_words_say_whether_it_is_simulated() -> None:
    assert Server("redis", "7.0.15").words == "Redis 7.0.15"
    assert Server("valkey", "8.1.1").words == "Valkey 8.1.1"
    simulated = Server("redis", "7.0.15", simulated=True)
    assert simulated.words == "simulated Redis 7.0.15"
    assert Server.parse(str(simulated)) == simulated


@pytest.mark.parametrize("text", ["", "redis", "redis@", "@7.0"])
def test_what_is_no_server(text: str) -> None:
    with pytest.raises(ValueError, match="PRODUCT@VERSION"):
        Server.parse(text)


@pytest.mark.parametrize(
    ("banner", "server"),
    [
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", Server("redis", "7.0.15")),
        ("a warning\nValkey server v=8.0.1 sha=00000000:0", Server("valkey", "8.0.1")),
        ("redis-cli 7.0.15", None),
    ],
)
def test_a_binary_names_its_server(banner: str, server: Server | None) -> None:
    assert server_in(banner) == server


@pytest.mark.parametrize(
    ("versions", "inside", "outside"),
    [
        ("redis < 7.0", ["redis@6.2.14", "redis@6.10"], ["redis@7.0.0", "redis@10.1", "valkey@6.2"]),
        ("redis >= 7.0", ["redis@7.0.0", "redis@10.1"], ["redis@6.2.14", "valkey@8.0.1"]),
        ("redis<7", ["redis@6.2.14"], ["redis@7.0.15"]),
        ("valkey", ["valkey@8.0.1", "simulated valkey@9.0"], ["redis@7.0.15"]),
        ("redis < 7.0", ["simulated redis@6.2.14"], ["simulated redis@7.0.15"]),
    ],
)
def test_a_range_of_versions(versions: str, inside: list[str], outside: list[str]) -> None:
    wanted = ServerRange.parse(versions)
    assert [text for text in inside if Server.parse(text) not in wanted] == []
    assert [text for text in outside if Server.parse(text) in wanted] == []


@pytest.mark.parametrize("text", ["", "redis 7.0", "postgres < 15", "redis < seven", "Redis < 7.0"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="no range of versions"):
        ServerRange.parse(text)


@pytest.mark.parametrize(("words", "who"), [(" (Redis 6.0.16)", "Redis 6.0.16"), ("", "this server")])
def test_a_server_that_is_too_old_names_the_setting(words: str, who: str) -> None:
    log = "some line before\n" + REFUSED.format(words) + "one after"
    refused = refused_directive(log)
    assert refused is not None
    assert (refused.server, refused.name, refused.directive) == (who, "set-proc-title", 'set-proc-title "no"')
    assert refused.why == "Bad directive or wrong number of arguments"


def test_another_end_is_no_refusal() -> None:
    assert refused_directive("Could not create server TCP listening socket *:6379: bind: in use") is None
