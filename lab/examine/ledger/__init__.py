"""A ledger of one trial: which command of which call changed whose key, and which rule that breaks."""
