"""Many runs: one engine for suites, sweeps and matrices."""
