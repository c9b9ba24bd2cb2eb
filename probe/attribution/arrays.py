"""Types of arrays. A docstring says the shape, a name the unit: ``_s``, ``_ns``, ``_j``, ``_w``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Times = Ints  # ns
Bools = npt.NDArray[np.bool_]
