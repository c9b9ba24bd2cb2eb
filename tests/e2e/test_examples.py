"""The paper's two models as a user starts them; data that are not what they should be."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from optimizers import Trainer, TrainingFailed  # noqa: E402
from optimizers.errors import DataProblem, UsageError  # noqa: E402
from probe.report.build import report_of  # noqa: E402
from probe.store.reader import RunReader  # noqa: E402
from tests.fakes import processes  # noqa: E402
from tests.unit.optimizers.models import loss, samples, stacked  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
import images  # noqa: E402
import text  # noqa: E402


def run(script: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=folder,
        # Other tests run beside: threads that spin for each other would wait for cores as well.
        env=os.environ | {"PROBE_DIR": str(folder / "runs"), "OMP_NUM_THREADS": "1"},
    )


def newest(folder: Path) -> dict:
    (path,) = (folder / "runs").iterdir()
    # A training does not wait for its seal for longer than two seconds.
    assert processes.wait_until(lambda: RunReader(path).status != "running", 30)
    return report_of(path).to_dict()


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBE_DIR", str(tmp_path / "runs"))
    return tmp_path


# -- they train ------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["resnet50_cifar10.py", "gpt2_wikitext2.py"])
@pytest.mark.parametrize("stack", [pytest.param("baseline", marks=pytest.mark.full), "paper"])
def test_the_examples_train_on_data_that_ship(script, stack, tmp_path):
    few = ("--samples", "1500" if script.startswith("resnet") else "320")
    done = run(script, "--size", "tiny", "--stack", stack, *few, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    found = newest(tmp_path)
    assert found["run"]["status"] == "finished" and found["run"]["steps"] > 5
    assert found["run"]["config"]["stack"] == stack
    phases = {row["phase"]: row for row in found["phases"]}
    assert phases["forward"]["time_s"] > 0 and phases["backward"]["time_s"] > 0
    assert phases["eval"]["count"] >= 1
    if stack == "paper":
        assert phases["recompute"]["time_s"] > 0
        assert "checkpointing" in done.stdout and "nothing to divide" in done.stdout


def rows(count: int, seed: int) -> np.ndarray:
    source = np.random.default_rng(seed)
    table = source.integers(0, 256, (count, images.ROW), dtype=np.uint8)
    table[:, 0] %= 10
    return table


def binary(folder: Path, count: int = 40) -> Path:
    place = folder / "cifar-10-batches-bin"
    place.mkdir(parents=True)
    for number, name in enumerate(images.BINARY):
        (place / name).write_bytes(rows(count, number).tobytes())
    return folder


def pickled(folder: Path, count: int = 40) -> Path:
    place = folder / "cifar-10-batches-py"
    place.mkdir(parents=True)
    for number, name in enumerate(images.PYTHON):
        table = rows(count, number)
        batch = {b"data": table[:, 1:], b"labels": table[:, 0].tolist()}
        (place / name).write_bytes(pickle.dumps(batch, protocol=2))
    return folder


def test_binary_and_python_batches_hold_the_same_images(tmp_path):
    one = images.load(str(binary(tmp_path / "a")))
    other = images.load(str(pickled(tmp_path / "b")), checked=False)
    assert one.train[0].shape == (200, 3, 32, 32)
    for a, b in zip((*one.train, *one.test), (*other.train, *other.test), strict=True):
        assert torch.equal(a, b)
    first = rows(40, 0)[0]
    assert one.train[0][0, 1, 2, 3] == first[1 + 1024 + 2 * 32 + 3]  # green plane, row 2
    assert one.train[1][0] == first[0]


def test_an_archive_is_read_without_being_unpacked(tmp_path):
    folder = binary(tmp_path / "a")
    archive = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder / "cifar-10-batches-bin", "cifar-10-batches-bin")
    found = images.load(str(tmp_path / "cifar-10-binary.tar.gz"), checked=False)
    assert torch.equal(found.test[0], images.load(str(folder)).test[0])
    with pytest.raises(DataProblem, match="md5"):
        images.load(str(archive))


@pytest.mark.parametrize("form", ["tokens", "raw", "parquet"])
def test_wikitext_is_read_in_all_its_forms(form, tmp_path):
    parts = {"train": "= A =\n one two three\n" * 50, "valid": "four five six\n" * 20}
    for part, content in parts.items():
        if form == "parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            name = "validation" if part == "valid" else part
            table = pa.table({"text": content.splitlines(keepends=True)})
            pq.write_table(table, tmp_path / f"{name}-00000-of-00001.parquet")
        else:
            (tmp_path / f"wiki.{part}.{form}").write_text(content)
    found = text.load(str(tmp_path))
    assert bytes(found.train.tolist()).decode() == parts["train"]
    assert found.words == 60 and found.tokens == "bytes"
    assert "per word" in text.perplexity(1.0, found)


# -- data that are wrong -----------------------------------------------------------------


def truncate(folder: Path) -> None:
    file = folder / "cifar-10-batches-bin" / "data_batch_3.bin"
    file.write_bytes(file.read_bytes()[:-7])


def relabel(folder: Path) -> None:
    file = folder / "cifar-10-batches-bin" / "test_batch.bin"
    file.write_bytes(bytes([77]) + file.read_bytes()[1:])


def lose(folder: Path) -> None:
    (folder / "cifar-10-batches-bin" / "data_batch_2.bin").unlink()


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (truncate, "data_batch_3.bin has .* it is truncated"),
        (relabel, "labels that do not fit"),
        (lose, "data_batch_2.bin is missing"),
    ],
)
def test_wrong_binary_batches_get_one_line(spoil, line, tmp_path):
    folder = binary(tmp_path / "a")
    spoil(folder)
    with pytest.raises(DataProblem, match=line) as told:
        images.load(str(folder))
    assert "\n" not in str(told.value)


def test_a_pickle_that_would_run_code_is_not_let_out(tmp_path):
    folder = pickled(tmp_path / "a")
    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {marker}",)

    (folder / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataProblem, match="asks for"):
        images.load(str(folder), checked=False)
    assert not marker.exists()


def test_wrong_md5_shape_and_emptiness_get_one_line(tmp_path):
    folder = pickled(tmp_path / "a")
    with pytest.raises(DataProblem, match="data_batch_1 has md5"):
        images.load(str(folder))
    batch = {b"data": np.zeros((5, 99), np.uint8), b"labels": [0] * 5}
    (folder / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(DataProblem, match=r"shape \(5, 99\)"):
        images.load(str(folder), checked=False)
    with pytest.raises(DataProblem, match="holds no CIFAR-10"):
        images.load(str(tmp_path))
    with pytest.raises(DataProblem, match="no such folder"):
        images.load(str(tmp_path / "nowhere"))
    (tmp_path / "wiki.train.raw").write_text(" \n")
    (tmp_path / "wiki.valid.raw").write_text("\n")
    with pytest.raises(DataProblem, match="empty"):
        text.load(str(tmp_path))


def test_a_damaged_archive_gets_one_line(tmp_path):
    archive = tmp_path / "cifar-10-binary.tar.gz"
    archive.write_bytes(b"\x1f\x8b" + bytes(200))
    with pytest.raises(DataProblem, match="damaged"):
        images.load(str(tmp_path), checked=False)
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("something.txt"), io.BytesIO())
    with pytest.raises(DataProblem, match="it is not CIFAR-10"):
        images.load(str(tmp_path), checked=False)


def test_a_script_says_it_in_one_line_and_leaves_with_1(tmp_path):
    done = run("resnet50_cifar10.py", "--data", str(tmp_path / "nowhere"), folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip().startswith("error: --data") and "\n" not in done.stderr.strip()
    done = run("gpt2_wikitext2.py", "--stack", "acumulation", folder=tmp_path)
    assert done.returncode == 1 and "no technique is called" in done.stderr
    assert "Traceback" not in done.stderr


# -- trainings that fail -------------------------------------------------------------------


def failing(watched: Path, spoiled) -> dict:
    trainer = Trainer(stacked(), samples(256), spoiled, samples=4096, batch_size=32, quiet=True)
    with pytest.raises(TrainingFailed) as told:
        trainer.fit()
    assert "\n" not in str(told.value)
    data = newest(watched)
    assert data["run"]["status"] == "failed"
    assert str(told.value)[:60] in data["run"]["ended_by"], data["run"]["ended_by"]
    return data


def test_a_loss_that_is_not_finite_ends_the_run_and_says_why(watched):
    data = failing(watched, lambda model, batch: loss(model, batch) * float("nan"))
    assert "loss is nan" in data["run"]["ended_by"]
    assert data["run"]["steps"] >= 1


def test_memory_that_is_not_there_ends_the_run_and_says_why(watched):
    steps = []

    def greedy(model, batch):
        steps.extend([1] * (batch[0].device.type == "cpu"))  # it is also called on meta, once
        if len(steps) > 5:
            torch.empty(1 << 60)
        return loss(model, batch)

    data = failing(watched, greedy)
    assert "no memory" in data["run"]["ended_by"] and data["run"]["steps"] == 5


def test_what_cannot_be_trained_on_is_refused_before_anything_starts(watched):
    with pytest.raises(DataProblem, match="is empty"):
        Trainer(stacked(), samples(0), loss, samples=64, batch_size=32)
    with pytest.raises(DataProblem, match="holds 8 samples, a batch is 32"):
        Trainer(stacked(), samples(8), loss, samples=64, batch_size=32)
    with pytest.raises(UsageError, match="needs evaluate="):
        Trainer(stacked(), samples(64), loss, samples=64, batch_size=32, target="loss<=1")
    assert not (watched / "runs").exists()


def test_a_stack_is_held_against_the_baseline(tmp_path):
    done = run(
        "03_did_it_pay.py",
        "--seeds",
        "2",
        "--samples",
        "640",
        "--stack",
        "schedule,clipping",
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    text = " ".join(done.stdout[done.stdout.index("time per sample by phase") :].split())
    assert "than digits-baseline" in " ".join(done.stdout.split())
    assert "2 runs of digits-baseline and 2 runs of digits-" in " ".join(done.stdout.split())
    assert "peak memory" in text and "eval_accuracy" in text
    assert "memory-bound" in text and "gradient-heavy" in text
