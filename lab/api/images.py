"""The images of docker runs: building, listing, removing."""

from lab.substrates.docker.images import build, present, remove

__all__ = ["build", "present", "remove"]
