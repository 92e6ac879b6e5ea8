"""What is tried: small schedules of clients and faults, and the order in which they are run."""
