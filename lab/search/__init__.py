"""Search: schedules of faults are drawn, run in the simulation, judged, and made as small as they can be."""
