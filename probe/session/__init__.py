"""The training process's side of a run: options, job, rings, recorder supervision."""
