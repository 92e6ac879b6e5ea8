"""Examining an unknown lock: what it is, how it differs from its reference, and its defects."""
