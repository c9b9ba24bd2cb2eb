"""What makes this training cheaper on this machine: a search over knobs that proves its winner.

``probe search`` trains a script with other settings in fresh processes, one at a time, and holds
the best of them against the script's own setting on seeds that the search never saw.

The flow: :mod:`knobs` are what can be set, :mod:`command_line` puts settings into a command,
:mod:`plan` decides from what was :mod:`measured` what is trained next, :mod:`store` keeps every
training in Optuna's storage, :mod:`driver` goes round until nothing is left to do. What trains is
:mod:`trainings.processes`; tests give a simulation. :mod:`proof` judges the champion by the code of
``probe compare``; :mod:`conclude` adds what it all cost, :mod:`text` says so.
"""
