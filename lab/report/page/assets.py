"""Assets of pages: scripts and styles, templates that escape, hashes for the content security policy."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

from jinja2 import Environment, StrictUndefined, Template


@cache
def template(name: str) -> Template:
    """A template by its name; values are escaped, and a missing one is an error."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(asset(name))


@cache
def asset(name: str) -> str:
    """A file of this directory."""
    return resources.files("lab.report.page").joinpath(name).read_text(encoding="utf-8")


def sha256(text: str) -> str:
    """The hash of a script or a style in a page's content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
