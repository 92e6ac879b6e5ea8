"""Scenarios: the model of a story, its loader, and the library of the shipped ones.

Nothing is imported here: each module is named where it is used.
"""
