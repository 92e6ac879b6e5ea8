"""The command line: one small module per command, which parses, calls the API and prints."""
