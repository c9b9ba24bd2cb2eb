"""DeepSpeed ZeRO: optimizer state (1), gradients (2) and weights (3) divided among ranks."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from typing import ClassVar

from probe.report.model import JsonValue

from ..errors import TechniqueRefused
from ..plan import Plan
from ..technique import EXCHANGES, Base

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}  # as DeepSpeed has them


@dataclass(frozen=True)
class Zero(Base):
    """The paper's is stage 2. On one rank there is nothing to divide: it is left out, and said.

    ``offload`` moves what DeepSpeed can from the GPU to the host: "optimizer" its state, "all" the
    weights as well (stage 3). Ren et al., ZeRO-Offload (2021).

    Run on CPUs over gloo; on GPUs and NCCL not run on hardware, nor has offload moved anything.
    """

    name: ClassVar[str] = "zero"
    equation: ClassVar[str] = "§III-E"
    conflicts: ClassVar[frozenset[str]] = EXCHANGES | {"overlap"}
    after: ClassVar[frozenset[str]] = frozenset({"precision"})

    stage: int = 2
    offload: str | None = None

    def plan(self, plan: Plan) -> Plan:
        if self.stage not in (1, 2, 3):
            raise TechniqueRefused(f"zero: stage={self.stage}: 1, 2 or 3")
        if self.offload not in (None, "optimizer", "all"):
            raise TechniqueRefused(f"zero: offload={self.offload!r}: optimizer or all")
        if self.offload == "all" and self.stage != 3:
            raise TechniqueRefused("zero: offload=all moves weights that stage 3 divides: stage=3")
        if plan.world == 1:
            return plan.note("zero: one rank, nothing to divide; start with torchrun")
        if importlib.util.find_spec("deepspeed") is None:
            raise TechniqueRefused("zero needs DeepSpeed: pip install deepspeed")
        precision = plan.precision
        if precision.scaled and plan.device == "cpu":
            raise TechniqueRefused("zero with fp16: DeepSpeed has no fp16 on a CPU; use bf16")
        if self.offload is not None and plan.device == "cpu":
            plan = plan.note("zero: offload on a CPU moves nothing, and it has not run on a GPU")
        return replace(plan, zero_stage=self.stage, zero_offload=self.offload)

    def predicts(self, plan: Plan) -> str:
        if plan.zero_stage is None:
            return "nothing on one rank"
        parts = ("optimizer state", "gradients", "weights")[: self.stage]
        text = f"{', '.join(parts)} ÷ {plan.world} ranks"
        if self.stage > 1:
            text += "; reduces at every micro-batch"
        if plan.zero_offload:
            moved = "optimizer state" if plan.zero_offload == "optimizer" else "it and weights"
            text += f"; {moved} on the host, moved over PCIe at every step"
        return text


def configuration(plan: Plan, micro_batch: int) -> dict[str, JsonValue]:
    """DeepSpeed's configuration, with everything written out that it would otherwise decide.

    0.19 clips at 1.0 by default, refuses optimizers that it has not tested, SGD among them, and
    keeps buffers in fp32.
    """
    dtype = str(plan.precision.dtype).removeprefix("torch.")
    master = plan.precision.mode == "master"
    autocast = plan.precision.mode == "autocast"
    zero: dict[str, JsonValue] = {"stage": plan.zero_stage}
    if plan.zero_offload is not None:
        zero["offload_optimizer"] = {"device": "cpu"}
    if plan.zero_offload == "all":
        zero["offload_param"] = {"device": "cpu"}
    return {
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": 1,  # boundaries are set by hand: k may change
        "gradient_clipping": plan.clip_norm or 0.0,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        # A half-precision engine keeps fp32 masters itself.
        "bf16": {"enabled": master and dtype == "bfloat16"},
        "fp16": {"enabled": master and dtype == "float16"},
        # Or it leaves buffers in fp32, and a batch norm refuses statistics unlike its weights.
        "data_types": {"buffer_dtype": _SHORT[dtype]} if master else {},
        "torch_autocast": {"enabled": autocast, "dtype": dtype},
        "steps_per_print": 10**9,
        "wall_clock_breakdown": False,
    }
