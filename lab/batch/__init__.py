"""Many runs: from a plan to rows, and from rows to tables and an exit code.

Runs of scenarios: ``plan`` (what a user selects) → ``item.Plan`` → ``engine`` (``Batch``), which calls
``one_run`` for each run and writes each ``row.Row`` into a ``journal`` → ``result`` → ``tables``, ``junit``,
``page``, ``kept``. One task over many seeds: ``campaign``, with workers on ``cores`` or on ``dask`` →
``tally``. The exit code of all of it is decided in ``exit_code`` alone.
"""
