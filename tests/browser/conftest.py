"""Tests in a real browser run where there is Debian's Chromium and playwright; else they say why not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 150_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One headless Chromium with a profile of its own.

    For one module only: while it is there its event loop counts as running, and no other test could have one.
    """
    api = pytest.importorskip(
        "playwright.sync_api", reason="SKIPPED: playwright is not installed (extra dev)"
    )
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("SKIPPED: no chromium on this machine (Debian: apt install chromium)")
    api.expect.set_options(timeout=PATIENCE_MS)  # five seconds by default: nothing may depend on speed
    # Chromium asks the session's services for nothing that a test needs.
    quiet = {name: value for name, value in os.environ.items() if name != "DBUS_SESSION_BUS_ADDRESS"}
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=list(FLAGS), env=quiet, timeout=PATIENCE_MS
        )
        yield launched
        launched.close()


class Watched:
    """A page, and everything that it complained of or asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Open a file in a fresh context, and wait until its scripts have run."""
    contexts = []

    def opening(path: Path, **options: object) -> Watched:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        watched = Watched(context.new_page())
        watched.page.goto(path.as_uri())
        watched.page.wait_for_selector("html[data-ready=yes]", state="attached")
        return watched

    yield opening
    for context in contexts:
        context.close()
