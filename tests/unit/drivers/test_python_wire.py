"""What ``close`` does to the commands of redis-py that are pending, for drivers in Python."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.lab_process import ROOT


@pytest.fixture
def wire() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("wire", Path(ROOT, "lab/drivers/python/wire.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    module._retry_again()


def test_what_is_pending_is_repeated_no_more_until_the_driver_opens_again(wire: ModuleType) -> None:
    """The object may be the default of all clients: those that are made later repeat as often as ever."""
    retry = Retry(NoBackoff(), 7)
    tries = 0

    def fails() -> None:
        nonlocal tries
        tries += 1
        if tries == 2:
            wire._stop_retrying()
        raise ConnectionError

    def call() -> int:
        nonlocal tries
        tries = 0
        with pytest.raises(ConnectionError):
            retry.call_with_retry(fails, lambda _: None)
        return tries

    retry.update_supported_errors([ConnectionError])
    assert call() == 2
    wire._retry_again()
    assert retry.get_retries() == 7
