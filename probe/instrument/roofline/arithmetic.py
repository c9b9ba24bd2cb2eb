"""Floating-point operations of one operation, from the shapes of its inputs and its output.

Two operations per multiply-add. An operation that is not in the table computes next to nothing and
moves its tensors. None: how much it computes cannot be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorShape:
    """A tensor without its values; ``item_bytes`` are the bytes of one element."""

    sizes: tuple[int, ...]
    item_bytes: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return self.elements * self.item_bytes


Inputs = Sequence[TensorShape | None]  # None: needs no gradient, so autograd does not know it


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``flops``: operations; ``unseen``: elements of inputs that need no gradient."""

    flops: float
    unseen: int = 0


def _product(first: int) -> Callable[[Inputs, TensorShape, bool], Arithmetic | None]:
    """(…, n, k) · (…, k, m); ``first``: the place of the left one among the inputs."""

    def count(inputs: Inputs, output: TensorShape, _transposed: bool) -> Arithmetic | None:
        left, right = inputs[first], inputs[first + 1]
        if left is not None:
            inner = left.sizes[-1]
        elif right is not None:
            inner = right.sizes[-2] if len(right.sizes) > 1 else right.sizes[0]
        else:
            return None
        columns = output.sizes[-1] if output.sizes and (left is None or len(left.sizes) > 1) else 1
        rows = output.elements // max(1, columns)
        batch = math.prod(output.sizes[:-2])
        unseen = (0 if left is not None else rows * inner) + (
            0 if right is not None else batch * inner * columns
        )
        return Arithmetic(2.0 * output.elements * inner, unseen)

    return count


def _convolution(inputs: Inputs, output: TensorShape, transposed: bool) -> Arithmetic | None:
    """Weights are (out, in / groups, …), of a transposed one (in, out / groups, …)."""
    image, weight = inputs[0], inputs[1]
    if weight is None or (transposed and image is None):
        return None
    swept = image.elements if transposed and image is not None else output.elements
    return Arithmetic(2.0 * swept * math.prod(weight.sizes[1:]))


def _attention(inputs: Inputs, output: TensorShape, _transposed: bool) -> Arithmetic | None:
    """softmax(q kᵀ) v; sizes (…, length, width)."""
    query, key, value = inputs[:3]
    attended = key or value
    if attended is None:
        return None
    width = (query or key or output).sizes[-1]
    longest = attended.sizes[-2]
    rows = math.prod(output.sizes[:-1])
    return Arithmetic(2.0 * rows * longest * (width + output.sizes[-1]))


def _recurrent(inputs: Inputs, output: TensorShape, _transposed: bool) -> Arithmetic | None:
    """One product with every weight at each place of each sequence; output (…, …, width)."""
    weights = [each for each in inputs[1:-2] if each is not None and len(each.sizes) == 2]
    if not weights:
        return None
    places = output.elements // output.sizes[-1]
    return Arithmetic(2.0 * places * sum(weight.elements for weight in weights))


_COUNTS: Mapping[str, Callable[[Inputs, TensorShape, bool], Arithmetic | None]] = {
    "Mm": _product(0),
    "Bmm": _product(0),
    "Mv": _product(0),
    "Dot": _product(0),
    "Addmm": _product(1),
    "Addmv": _product(1),
    "Baddbmm": _product(1),
    "Addbmm": _product(1),
    "Convolution": _convolution,
    "CudnnConvolution": _convolution,
    "MkldnnConvolution": _convolution,
    "ScaledDotProductFlashAttentionForCpu": _attention,
    "ScaledDotProductFlashAttention": _attention,
    "ScaledDotProductEfficientAttention": _attention,
    "ScaledDotProductCudnnAttention": _attention,
    "MkldnnRnnLayer": _recurrent,
    "CudnnRnn": _recurrent,
    "MiopenRnn": _recurrent,
}
WHOLE_BACKWARD = frozenset(
    name for name in _COUNTS if name.startswith("Scaled") or name.endswith(("Rnn", "RnnLayer"))
)
"""Operations whose backward is one kernel for all inputs, with twice the arithmetic."""


def arithmetic(
    name: str, inputs: Inputs, output: TensorShape, *, transposed: bool = False
) -> Arithmetic | None:
    """What an operation computes; None if that cannot be seen.

    Args:
        name: as autograd names it, without "Backward".
        transposed: a convolution's.
    """
    count = _COUNTS.get(name)
    return Arithmetic(0.0) if count is None else count(inputs, output, transposed)
