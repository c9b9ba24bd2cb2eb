"""How much arithmetic a step is, and what share of the device's peak it reaches (MFU).

Counted once, on the ``meta`` device, where nothing is computed: forward and backward of one batch,
two operations per multiply-add, recomputation not included (with it the number is called HFU).
Peaks are dense ones; vendors' sparse figures are twice that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from probe.instrument.roofline.ridge import matmul_rate

from ..plan import Loss
from ..techniques.accumulation import size

# Dense tensor-core peaks in 10¹² operations per second with fp16 or bf16 operands, from NVIDIA's
# data sheets of the products; the longest name that matches counts.
PEAKS = {
    "B200": 2250.0,
    "H200": 989.4,
    "H100 PCIe": 756.0,
    "H100": 989.4,
    "A100": 312.0,
    "A10": 125.0,
    "L40S": 362.0,
    "L4": 121.0,
    "V100": 125.0,
    "T4": 65.0,
}


@dataclass(frozen=True, slots=True)
class Peak:
    """Operations per second of one device, and whether a data sheet or a measurement says so."""

    per_s: float
    source: str


class Substitute(nn.Module):
    """The model run on other tensors than its own, which stay as they are."""

    def __init__(self, model: nn.Module, replacement: Callable[[torch.Tensor], torch.Tensor]):
        """``replacement`` gives the tensor that takes the place of a parameter or buffer."""
        super().__init__()
        self._model = [model]  # in a list, so that it is no submodule
        self._state = {
            name: replacement(value).requires_grad_(value.requires_grad)
            for name, value in model.named_parameters()
        }
        self._state |= {name: replacement(value).clone() for name, value in model.named_buffers()}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return functional_call(self._model[0], self._state, args, kwargs)


def per_sample(model: nn.Module, loss: Loss, batch: Any) -> float | None:
    """Operations of forward and backward per sample; None if none are seen.

    A model that looks at values cannot run on ``meta``; it is run for real, once.
    """
    try:
        total = _count(
            Substitute(model, lambda t: torch.empty_like(t, device="meta")), loss, _meta(batch)
        )
    except Exception:
        try:
            total = _count(Substitute(model, torch.Tensor.detach), loss, batch)
        except Exception:  # the training will say what is wrong
            return None
    return total / size(batch) or None


def _count(model: nn.Module, loss: Loss, batch: Any) -> int:
    with FlopCounterMode(display=False, custom_mapping=ATTENTION) as counter:
        loss(model, batch).backward()
    return int(counter.get_total_flops())


def _attention(q: Any, k: Any, v: Any, *_args: Any, **_kwargs: Any) -> int:
    return int(sdpa_flop_count(q, k, v))


def _attention_backward(_grad: Any, q: Any, k: Any, v: Any, *_args: Any, **_kwargs: Any) -> int:
    return 2 * int(sdpa_flop_count(q, k, v))  # what it computes again is not counted


# torch's counter knows the kernels of GPUs only: a CPU's attention would count nothing.
ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}


def peak(device: str, dtype: torch.dtype) -> Peak | None:
    """Of the device that this process uses; a CPU's is measured (about 0.3 s).

    A CPU without instructions for a half precision computes it in fp32, some layouts of a product a
    dozen times as fast as others: its peak in that precision is the one of fp32.
    """
    if device == "cuda":
        name = torch.cuda.get_device_name()
        matching = [
            key
            for key in PEAKS
            if all(word in name.split() + name.split("-") for word in key.split())
        ]
        half = dtype in (torch.float16, torch.bfloat16)
        if not matching or not half:
            return None
        return Peak(PEAKS[max(matching, key=len)] * 1e12, "dense peak of the data sheet")
    rates = {kind: matmul_rate(device, kind) for kind in dict.fromkeys((dtype, torch.float32))}
    fastest = max(rates, key=rates.__getitem__)
    slower = "" if fastest is dtype else f" ({_word(dtype)} is slower on this CPU)"
    number = torch.get_num_threads()
    threads = f"{number} thread{'s' if number > 1 else ''}"
    return Peak(rates[fastest], f"measured matmul peak, {_word(fastest)}{slower}, {threads}")


@dataclass(frozen=True, slots=True)
class Utilisation:
    """A training's share of its devices' peak (MFU), or the reason why none is stated."""

    mfu: float | None
    peak: str = ""  # where the peak comes from
    reason: str = ""


def utilisation(
    flops_per_sample: float | None, samples_per_s: float, peak_of_all: Peak | None
) -> Utilisation:
    """The share of a peak that so many samples a second are.

    A share above 1 is none: the peak is too low, or the operations are counted wrongly.
    """
    if flops_per_sample is None:
        return Utilisation(None, reason="the operations of the model could not be counted")
    if peak_of_all is None:
        return Utilisation(None, reason="no peak is known of this device in this precision")
    if samples_per_s <= 0:
        return Utilisation(None, reason="no step was timed")
    share = flops_per_sample * samples_per_s / peak_of_all.per_s
    if share > 1:
        return Utilisation(None, reason=f"{share:.0%} of the {peak_of_all.source}")
    return Utilisation(share, peak_of_all.source)


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _meta(batch: Any) -> Any:
    return tree_map_only(
        torch.Tensor, lambda t: torch.empty_like(t, device="meta", requires_grad=False), batch
    )
