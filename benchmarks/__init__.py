"""What phasewatt costs and how right it is: one command per figure, started from the root.

    python -m benchmarks.cost.overhead
    python -m benchmarks.prove

cost       what watching takes from the training, and what the recorder takes beside it
energy     how right joules per phase and comparisons are, on runs of known power
training   what the trainer, its techniques and reducing gradients cost
dashboard  how fast pages are, and what looking at a run costs its training
long_runs  a day of a run recorded and reported, a week of it stored
harness    what they share: results, processes, turns, hooks
claims     the promises of the project, and how each is shown (prove.py, sources.py)
results    the last figures, by folder, and the machine they are from
"""
