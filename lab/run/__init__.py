"""One run: bring a cluster up, play a scenario, observe, record, tear down."""
