"""What a training process writes of itself into the run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..instrument import PhaseEngine
from ..redact import redact_config, redact_text
from ..store.new_run_file import LARGEST_CONFIG_BYTES
from .arguments import plain_config
from .joining import ended_by_parent

if TYPE_CHECKING:
    from ..report.model import JsonValue
    from ..store.run_fields import ProcessFields

# What changes results or speed of torch, CUDA and the libraries below them.
_VARIABLES = {
    *("PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "LD_PRELOAD", "MALLOC_CONF", "DNNL_VERBOSE"),
    *("OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "ATEN_CPU_CAPABILITY"),
}
_PREFIXES = ("CUDA_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR_", "NCCL_", "GLOO_", "OMP_", "MKL_",
             "KMP_", "CUDNN_", "NVIDIA_TF32", "DS_", "DNNL_")  # fmt: skip
_LONGEST = 200


def process_info(engine: PhaseEngine) -> ProcessFields:
    """The torch version, the model, warnings, overhead and counted operations of this process."""
    torch = sys.modules.get("torch")
    counted = engine.step_roofline
    return {
        "torch": str(getattr(torch, "__version__", "unknown")),
        "torch_state": _torch_state(torch),
        "environment": environment(),
        "model_hash": engine.parameters_hash or "unknown",
        "model_found": engine.model_found or "unknown",
        "warnings": [redact_text(line) for line in engine.all_warnings()],
        "beside_computing": engine.beside_computing,
        "overhead": dataclasses.asdict(engine.overhead()),
        "roofline": None if counted is None else counted.to_dict(),
        "ended_by_parent": ended_by_parent() or None,
    }


def environment() -> dict[str, str]:
    """The variables of this process that change what torch and CUDA do, without secrets."""
    chosen = {
        name: value
        for name, value in sorted(os.environ.items())
        if name in _VARIABLES or name.startswith(_PREFIXES)
    }
    hidden = redact_config(chosen)  # by name and by form
    return {str(name): str(value)[:_LONGEST] for name, value in hidden.items()}


def cards_in_use() -> tuple[str, ...]:
    """The UUID of the card that torch uses in this process; nothing before CUDA is initialised."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return ()
    uuid = getattr(cuda.get_device_properties(cuda.current_device()), "uuid", None)
    return () if uuid is None else (f"GPU-{uuid}",)


def with_added(kept: ProcessFields, settings: Any, warn: Callable[[str], None]) -> ProcessFields:
    """The fields of a process with further settings, without secrets. Never raises.

    Args:
        kept: what was added before; a later value of the same name counts.
        settings: a mapping, a dataclass or a namespace.
        warn: hears why nothing was added.
    """
    try:
        together = {**kept.get("settings", {}), **redact_config(plain_config(settings) or {})}
        size = len(json.dumps(together))
        if size <= LARGEST_CONFIG_BYTES:
            return {"settings": together} if together else {}
        warn(f"configure() was given too much to be kept: {size >> 10} KiB")
    except Exception as error:
        warn(f"configure: {type(error).__name__}: {error}")
    return kept


def _torch_state(torch: Any) -> dict[str, JsonValue]:
    """Seed and flags, as far as this torch can say; nothing is initialised by asking."""
    if torch is None:
        return {}
    asked: dict[str, Callable[[], JsonValue]] = {
        "seed": lambda: int(torch.initial_seed()),
        "deterministic": lambda: bool(torch.are_deterministic_algorithms_enabled()),
        "cudnn_benchmark": lambda: bool(torch.backends.cudnn.benchmark),
        "cudnn_deterministic": lambda: bool(torch.backends.cudnn.deterministic),
        "matmul_precision": lambda: str(torch.get_float32_matmul_precision()),
        "matmul_tf32": lambda: bool(torch.backends.cuda.matmul.allow_tf32),
        "cudnn_tf32": lambda: bool(torch.backends.cudnn.allow_tf32),
        "fp32_precision": lambda: str(torch.backends.fp32_precision),
        "threads": lambda: int(torch.get_num_threads()),
        "interop_threads": lambda: int(torch.get_num_interop_threads()),
        "default_dtype": lambda: str(torch.get_default_dtype()),
    }
    state: dict[str, JsonValue] = {}
    for name, ask in asked.items():
        with contextlib.suppress(Exception):
            state[name] = ask()
    return state
