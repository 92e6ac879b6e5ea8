"""Where a scenario runs. A substrate knows processes, links and clocks, but no lock and no scenario."""
