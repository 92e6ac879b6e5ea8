"""A recorded history: events, operations, grants, and what the nodes showed of them."""
