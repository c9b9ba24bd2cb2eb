"""Alerts on live runs: a user's rules, who is notified, and the thread that checks them.

Rules, command and webhook come from the user alone (command line, ``alerts.toml`` in the user's own
configuration), never from a directory of runs.
"""
