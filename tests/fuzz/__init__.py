"""Algorithms against oracles on very many very small histories."""
