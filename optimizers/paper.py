"""The paper's stack, and where a plan of it is another one than the paper's.

k ∈ {4, 8} led by the gradients' variance, half-precision weights in fp16 with fp32 masters and a
dynamic loss scale, 5 % warm-up and a cosine to 0.1 η, norms clipped at 1, √L checkpointing, ZeRO-2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from .plan import Plan, Schedule
from .technique import Technique
from .techniques.accumulation import GradientAccumulation
from .techniques.checkpointing import Checkpointing
from .techniques.clipping import Clipping
from .techniques.precision import MixedPrecision, cpu_has_bf16
from .techniques.schedule import WarmupCosine
from .techniques.zero import Zero

_KS, _CLIP, _STAGE = (4, 8), 1.0, 2
_SCHEDULE = Schedule(warmup=0.05, floor=0.1)


def members() -> list[Technique]:
    """The paper's techniques with the paper's settings."""
    low, high = _KS
    return [
        GradientAccumulation(k=low, adaptive=True, k_min=low, k_max=high, k_step=high - low),
        WarmupCosine(_SCHEDULE.warmup, _SCHEDULE.floor),
        Clipping(_CLIP),
        MixedPrecision("fp16", "master"),
        Checkpointing(),
        Zero(_STAGE),
    ]


def fitted(technique: Technique, plan: Plan) -> Technique:
    """The paper's technique as it can be run here: on a CPU fp16 becomes bf16, or fp32."""
    if plan.device != "cpu" or not isinstance(technique, MixedPrecision):
        return technique
    return replace(technique, dtype="bf16" if cpu_has_bf16() else None)


def departures(plan: Plan, techniques: Iterable[Technique]) -> list[str]:
    """What differs from the paper in a plan of these techniques, a line each."""
    by_name = {technique.name: technique for technique in techniques}
    lines = []
    accumulation = plan.accumulation
    asked = range(1, max(_KS) + accumulation.k_max + 1)
    ks = {accumulation.allowed(k) for k in asked} if accumulation.adaptive else {accumulation.k}
    if accumulation.optimal:
        lines.append("k is the one of eq. (9), measured; the paper's is 4 or 8")
    elif ks != set(_KS) or accumulation.mode != "split":
        lines.append(
            f"k is {' or '.join(map(str, sorted(ks)))}, mode={accumulation.mode}; "
            "the paper's is 4 or 8"
        )
    half = plan.precision
    if half.dtype is not torch.float16:
        why = " (fp16 is slow on a CPU)" if plan.device == "cpu" else ""
        word = {torch.bfloat16: "bf16", torch.float32: "fp32"}[half.dtype]
        lines.append(f"{word} instead of fp16{why}")
    if half.mode == "autocast":
        lines.append("weights stay fp32 under autocast; the paper's are fp16 beside fp32 masters")
    if plan.zero_stage != _STAGE:
        lines.append(
            "no ZeRO-2: one rank has nothing to divide"
            if plan.world == 1
            else f"ZeRO-{plan.zero_stage} instead of ZeRO-2"
        )
    if plan.schedule != _SCHEDULE:
        lines.append("another schedule than 5 % warm-up and a cosine to 0.1 η")
    if plan.clip_norm != _CLIP:
        lines.append(f"clipped at {plan.clip_norm:g} instead of 1")
    if by_name.get(Checkpointing.name) != Checkpointing():
        lines.append("other layers are checkpointed than every √L-th")
    more = sorted(by_name.keys() - {member.name for member in members()})
    if more:
        lines.append(f"{', '.join(more)} in addition")
    return [f"differs from the paper: {line}" for line in lines]
