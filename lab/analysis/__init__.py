"""lab/analysis."""
