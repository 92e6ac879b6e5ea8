"""Tests of the search for schedules."""
