"""Scenarios: the model, its loader, and the library of those that come with the lab."""
