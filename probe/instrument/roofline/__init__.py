"""Which part of a phase waits for memory: the operations of one step against the device's rates.

graph_operations   the operations that autograd noted of a step, without running anything
arithmetic         how much an operation computes, from its shapes
ridge              operations and bytes per second of this machine, measured once and kept
step_classifier    both put together, once in a run
"""

NOT_SEPARATED = "classify: memory-bound work is not separated"
"""How a run's warning begins that says why its step was not counted."""
