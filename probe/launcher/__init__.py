"""``probe run``: start a command and let the processes that train join its run."""
