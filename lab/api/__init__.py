"""The lab as a library: everything that a command can do, as Python."""
