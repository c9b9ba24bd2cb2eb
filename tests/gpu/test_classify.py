"""``watch(classify=True)`` on a real CUDA device: counted there, its rates kept, its peak left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.phase_recording import watched

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("classify", [False, True])
def test_a_step_is_counted_on_the_device(
    classify: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_CALIBRATION", str(tmp_path / "ridge"))
    layer = torch.nn.Linear(4096, 4096, bias=False, device="cuda")
    optimizer = torch.optim.AdamW(layer.parameters())
    batch = torch.randn(65536, 4096, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    with watched(tmp_path, layer, optimizer, classify=classify) as run:
        for _ in range(3):
            with torch.autocast("cuda", torch.bfloat16):
                loss = layer(batch).float().square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        peak = torch.cuda.max_memory_allocated()
    roofline = run.engine.step_roofline
    if not classify:
        assert roofline is None
        return
    assert roofline is not None and run.engine.all_warnings() == []
    assert roofline.flops_per_s > 1e13 and roofline.bytes_per_s > 1e11
    assert len(list((tmp_path / "ridge").glob("cuda-*.json"))) == 1
    # Weights, batch, output and their copies: the rates are measured below this peak.
    assert peak < 8 * batch.numel() * 4
