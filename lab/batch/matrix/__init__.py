"""Matrices: locks × scenarios, and what came out of each; a table of what there is, and no test of it."""
