"""The words beside the scenes; they stand in `texts.yaml`."""

from __future__ import annotations

from importlib import resources

import msgspec

from lab.scenario.model import Scenario


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is said of one story. `after` is whom the words follow, "" where they are the scenario's own."""

    opening: str
    scenes: tuple[str, ...]
    closing: str
    after: str = ""


def told() -> dict[str, Words]:
    """The stories that have words of their own."""
    text = resources.files("lab.report.demo").joinpath("texts.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=dict[str, Words])


def words_for(name: str, scenario: Scenario) -> Words:
    """The words of a story, or what its file says of it."""
    own = told().get(name)
    return own or Words(f"{scenario.source}", (), scenario.why.strip().replace("\n", " "))
