"""Types of arrays. A docstring says the shape, a name the unit: ``_s``, ``_ns``, ``_j``, ``_w``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Times = Ints  # ns
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ArrayTable:
    """Base of dataclasses whose fields are arrays of one length, (n,): a table by columns."""

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.__dataclass_fields__))))

    def take(self, which: slice | Bools | Ints) -> Self:
        """The rows that a slice, a mask (n,) or indices (m,) choose."""
        return type(self)(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts (one at least), one part after the other."""
        return cls(
            *(
                np.concatenate([getattr(p, name) for p in parts])
                for name in cls.__dataclass_fields__
            )
        )
