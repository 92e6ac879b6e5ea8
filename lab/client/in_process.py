"""The client's code for a substrate that runs clients in its own process (``lab.substrates.sim``)."""

from lab.client.log import EventLog
from lab.client.serve import serve

__all__ = ["EventLog", "serve"]
