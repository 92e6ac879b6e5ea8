"""How much of a change to `checker/` its tests notice: mutants, drawn at random and run in memory."""
