"""From a history and its scenario to a result: expectation, key presence, belief, metrics."""
