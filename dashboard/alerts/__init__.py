"""Rules that say when somebody wants to hear of a live run, and how that is told.

Rules, command and webhook come from the user alone (command line, ``alerts.toml`` in the user's own
configuration), never from a directory of runs.
"""
