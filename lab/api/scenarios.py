"""The scenarios that come with the lab: a line about each, the text of one, the schema, and the claims."""

from __future__ import annotations

from lab.scenario.claims import claim_rows
from lab.scenario.library import summaries
from lab.scenario.load import load_scenario
from lab.scenario.schema import json_schema

__all__ = ["claim_rows", "json_schema", "summaries", "text_of"]


def text_of(scenario: str) -> str:
    """A scenario, by name or file, as YAML with every default. Raises ``LabError``."""
    return load_scenario(scenario).text
