"""Locks as programs have them; none of these modules knows the lab. See ``tests.known_bad.ordinary``."""
