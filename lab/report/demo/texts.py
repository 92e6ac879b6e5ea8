"""The texts beside the parts of a run, from `texts.yaml`."""

from __future__ import annotations

from importlib import resources

import msgspec

from lab.scenario.model import Scenario


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of one scenario. `after` is the article that they paraphrase, if they do."""

    opening: str
    parts: tuple[str, ...]
    closing: str
    after: str = ""


def texts() -> dict[str, Words]:
    """The texts of all scenarios that have some."""
    text = resources.files("lab.report.demo").joinpath("texts.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=dict[str, Words])


def words_for(name: str, scenario: Scenario) -> Words:
    """The texts of a scenario, or its `source` and `why`."""
    own = texts().get(name)
    return own or Words(f"{scenario.source}", (), scenario.why.strip().replace("\n", " "))
