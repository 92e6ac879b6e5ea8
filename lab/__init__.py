"""The lock lab: fault injection for distributed locks, on real processes."""
