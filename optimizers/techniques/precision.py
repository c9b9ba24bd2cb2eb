"""Mixed precision: autocast over fp32 weights, or a half-precision model with fp32 masters (13–17).

The paper's (13) and (14) describe ``master``: weights and activations in half precision, an fp32
copy that the optimizer steps. What frameworks call mixed precision is ``autocast``: weights stay
fp32, so memory of weights does not halve and (17) does not hold; activations do. (PAPER.md)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from ..errors import TechniqueRefused
from ..plan import Plan, Precision
from ..technique import Base

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class MixedPrecision(Base):
    """bf16, or fp16 with a loss scale that follows overflows.

    Without ``dtype`` it is bf16, and fp32 as before on a CPU that has no bf16: there a step takes
    many times as long, up to a hundred, and a training seems to hang.

    Run on CPUs, in both precisions and modes; on a GPU not run on hardware.
    """

    name: ClassVar[str] = "precision"
    equation: ClassVar[str] = "(13)–(17)"
    after: ClassVar[frozenset[str]] = frozenset({"tf32"})

    dtype: Literal["bf16", "fp16"] | None = None
    mode: Literal["autocast", "master"] = "autocast"

    def plan(self, plan: Plan) -> Plan:
        name = self.dtype or "bf16"
        if name not in DTYPES:
            raise TechniqueRefused(f"precision: dtype={name!r}: write 'bf16' or 'fp16'")
        if self.mode not in ("autocast", "master"):
            raise TechniqueRefused(f"precision: mode={self.mode!r}: write 'autocast' or 'master'")
        dtype = DTYPES[name]
        if plan.device == "cuda" and dtype is torch.bfloat16 and not torch.cuda.is_bf16_supported():
            raise TechniqueRefused("precision: this GPU has no bf16; use dtype='fp16'")
        if plan.device == "cpu":
            if dtype is torch.float16:
                plan = plan.note("precision: fp16 on a CPU is slower than fp32")
            elif cpu_has_bf16():
                plan = plan.note("precision: bf16, the half precision that CPUs are fast in")
            elif self.dtype is None:
                return plan.note(
                    "precision: this CPU has no bf16, fp32 is many times as fast: nothing is "
                    "changed; dtype='bf16' would"
                )
            else:
                plan = plan.note("precision: this CPU has no bf16, fp32 is many times as fast")
        elif not plan.tf32:
            plan = plan.note(
                "precision: what stays fp32 is computed "
                + ("in TF32" if torch.backends.cuda.matmul.allow_tf32 else "in full, TF32 is off")
            )
        return replace(plan, precision=Precision(self.mode, dtype))

    def predicts(self, plan: Plan) -> str:
        if plan.precision.mode == "full":
            return "nothing here"
        if self.mode == "autocast":
            return "activations of matrix products ÷ 2; weights, gradients, optimizer as before"
        return "weights, gradients, activations ÷ 2; + 4 bytes per parameter for the masters"


def cpu_has_bf16() -> bool:
    """Whether torch's bf16 matrix products use instructions of this CPU.

    True if torch cannot say.
    """
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return supported is None or bool(supported())


def accept_floats(module: nn.Module, dtype: torch.dtype) -> None:
    """Cast fp32 inputs of a half-precision model to its type, in training and evaluation alike."""

    def cast(inputs: Any) -> Any:
        return tree_map_only(
            torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, inputs
        )

    module.register_forward_pre_hook(
        lambda _module, args, kwargs: (cast(args), cast(kwargs)), with_kwargs=True
    )


class Masters:
    """fp32 copies of half-precision parameters, and the optimizer that steps them.

    :meth:`collect` brings gradients to the copies, before they are unscaled and clipped; each step
    of ``optimizer`` ends by writing the copies back, rounded.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        make: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
    ):
        self.parameters = [p for p in parameters if p.requires_grad]
        self.copies = [nn.Parameter(p.detach().float().clone()) for p in self.parameters]
        self.optimizer = make(self.copies)
        self.optimizer.register_step_post_hook(lambda *_: self.publish())

    def collect(self) -> None:
        """Gradients of the model become the copies', in fp32."""
        for copy, parameter in zip(self.copies, self.parameters, strict=True):
            copy.grad = None if parameter.grad is None else parameter.grad.float()
            parameter.grad = None

    def publish(self) -> None:
        """The copies become the model's weights."""
        with torch.no_grad():
            torch._foreach_copy_([*self.parameters], [*self.copies])

    def restore(self, copies: Sequence[torch.Tensor]) -> None:
        """Go on from saved copies, which the model's weights do not determine."""
        with torch.no_grad():
            for copy, saved in zip(self.copies, copies, strict=True):
                copy.copy_(saved)
        self.publish()
