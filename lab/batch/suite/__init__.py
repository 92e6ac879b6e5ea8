"""Suites: which scenarios are run with which locks on which substrates, and what must come out of each."""
