"""``python -m tests.browser.shots`` photographs the pages of the gallery into ``page.png`` beside each."""

from __future__ import annotations

import io
import shutil
import sys

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.browser.conftest import FLAGS
from tests.unit.report.pages import GALLERY, SCENARIOS

SIZE = {"width": 1100, "height": 1500}


def main() -> None:
    """Photograph the top of every page, in few colours: the files stay small."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS), timeout=150_000)
        for name in SCENARIOS:
            page = browser.new_page(viewport=SIZE, color_scheme="light")  # type: ignore[arg-type]
            page.goto((GALLERY / name / "index.html").as_uri())
            page.wait_for_selector("html[data-ready=yes]", state="attached")
            shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            shot.quantize(160).save(GALLERY / name / "page.png", optimize=True)
            page.close()
            sys.stdout.write(f"{name}\n")
        browser.close()


if __name__ == "__main__":
    main()
