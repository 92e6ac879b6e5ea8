"""From a history and its scenario to a result: verdict, comparison, key presence, belief, metrics."""
