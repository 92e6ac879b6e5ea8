"""lab/run/execution."""
