"""The linearizability half of the checker, and the formats of its published histories."""
