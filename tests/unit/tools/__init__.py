"""Tests of the tools that the lab provides."""
