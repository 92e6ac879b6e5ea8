"""lab/cli/app."""
