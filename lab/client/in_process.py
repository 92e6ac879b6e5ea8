"""The client's program for a substrate that runs it in its own process: what it serves, and where it logs."""

from lab.client.log import EventLog
from lab.client.serve import serve

__all__ = ["EventLog", "serve"]
