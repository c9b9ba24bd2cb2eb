"""Runs at the start of every Python process below ``probe run``. Must never disturb it.

It hands over to the user's own ``sitecustomize`` first, then waits for torch to be
imported and, in a process that begins to train (it makes an optimizer, runs a
backward pass or iterates a DataLoader), joins the run. Launcher agents, data-loader
workers, compile workers and resource trackers never do any of these, so they stay
as they are.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _chain() -> None:
    """Run the sitecustomize that this one hides."""
    import importlib.machinery
    import importlib.util

    paths = [p for p in sys.path if os.path.abspath(p or os.curdir) != _HERE]
    sys.path[:] = paths
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _arm() -> None:
    """Load our own trigger by its path: the user's python need not have us installed."""
    import importlib.util

    path = os.path.join(os.path.dirname(_HERE), "torch_trigger.py")
    spec = importlib.util.spec_from_file_location("_phasewatt_trigger", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.arm()


if os.environ.get("PROBE_RUN") or os.environ.get("PROBE_TASK"):
    try:
        _arm()
    except Exception as error:  # the script matters more than its measurement
        sys.stderr.write(f"phasewatt: phases are not recorded here: {error}\n")
_chain()
