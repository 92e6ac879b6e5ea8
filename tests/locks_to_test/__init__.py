"""Correct locks that look unusual: nothing that judges locks may accuse one of them.

Each keeps mutual exclusion while messages are lost, held or delayed, clients pause, and nodes crash that sync
every command; leaves no key behind for longer than its TTL; and works again when the fault is over. They
share nothing with ``lab.locks`` but its protocol.
"""
