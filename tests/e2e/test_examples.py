"""The paper's two models as a user starts them; data that are not what they should be."""

from __future__ import annotations

import io
import os
import pickle
import runpy
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
from tests.fakes.packages import need  # noqa: E402
from tests.unit.optimizers.models import loss, samples, stacked  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
import cifar10_files  # noqa: E402
import images  # noqa: E402
import text  # noqa: E402


def run(script: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), *arguments],
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
        cwd=folder,
        # Other tests run beside: threads that spin for each other would wait for cores as well.
        env=os.environ | {"PROBE_DIR": str(folder / "runs"), "OMP_NUM_THREADS": "1"},
    )


def newest(folder: Path) -> dict:
    (path,) = (folder / "runs").iterdir()
    # A training does not wait for its seal for longer than two seconds.
    assert processes.wait_until(lambda: RunReader(path).status != "running")
    return report_of(path).to_dict()


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBE_DIR", str(tmp_path / "runs"))
    return tmp_path


# -- they train ------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("script", ["resnet50_cifar10.py", "gpt2_wikitext2.py"])
@pytest.mark.parametrize("stack", ["baseline", "paper"])
def test_the_examples_train_on_data_that_ship(script, stack, tmp_path):
    few = ("--samples", "1500" if script.startswith("resnet") else "320", "--modules")
    done = run(script, "--size", "tiny", "--stack", stack, *few, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    newest_run = newest(tmp_path)
    assert newest_run["run"]["status"] == "finished" and newest_run["run"]["steps"] > 5
    assert newest_run["run"]["config"]["stack"] == stack
    phases = {row["phase"]: row for row in newest_run["phases"]}
    assert phases["forward"]["time_s"] > 0 and phases["backward"]["time_s"] > 0
    assert phases["eval"]["count"] >= 1
    kind = "convolution" if script.startswith("resnet") else "attention"
    assert phases[f"forward/{kind}"]["time_s"] > 0
    if stack == "paper":
        assert phases["recompute"]["time_s"] > 0
        assert "checkpointing" in done.stdout and "nothing to divide" in done.stdout


def rows(count: int, seed: int) -> np.ndarray:
    source = np.random.default_rng(seed)
    table = source.integers(0, 256, (count, cifar10_files.ROW), dtype=np.uint8)
    table[:, 0] %= 10
    return table


def binary(folder: Path, count: int = 40) -> Path:
    place = folder / "cifar-10-batches-bin"
    place.mkdir(parents=True)
    for number, name in enumerate(cifar10_files.BINARY):
        (place / name).write_bytes(rows(count, number).tobytes())
    return folder


def pickled(folder: Path, count: int = 40) -> Path:
    place = folder / "cifar-10-batches-py"
    place.mkdir(parents=True)
    for number, name in enumerate(cifar10_files.PYTHON):
        table = rows(count, number)
        batch = {b"data": table[:, 1:], b"labels": table[:, 0].tolist()}
        (place / name).write_bytes(pickle.dumps(batch, protocol=2))
    return folder


def test_binary_and_python_batches_hold_the_same_images(tmp_path):
    binary_images = images.load(str(binary(tmp_path / "a")), checked=False)
    other = images.load(str(pickled(tmp_path / "b")), checked=False)
    assert binary_images.train[0].shape == (200, 3, 32, 32)
    for a, b in zip(
        (*binary_images.train, *binary_images.test), (*other.train, *other.test), strict=True
    ):
        assert torch.equal(a, b)
    first = rows(40, 0)[0]
    assert binary_images.train[0][0, 1, 2, 3] == first[1 + 1024 + 2 * 32 + 3]  # green plane, row 2
    assert binary_images.train[1][0] == first[0]


def test_an_archive_is_read_without_being_unpacked(tmp_path):
    folder = binary(tmp_path / "a")
    archive = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder / "cifar-10-batches-bin", "cifar-10-batches-bin")
    loaded = images.load(str(tmp_path / "cifar-10-binary.tar.gz"), checked=False)
    assert torch.equal(loaded.test[0], images.load(str(folder), checked=False).test[0])
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
    loaded = text.load(str(tmp_path))
    assert bytes(loaded.train.tolist()).decode() == parts["train"]
    assert loaded.name == "WikiText-2" and loaded.words == 60 and loaded.tokens == "bytes"
    assert "per word" in text.perplexity(1.0, loaded)


# -- data as people have them ------------------------------------------------------------


COLOURS = np.arange(18, dtype=np.uint8)  # one for each image: its pixels say which it is
LABELS = np.repeat([0, 1, 2], 6)


def painted(form: str) -> np.ndarray:
    """18 images, each of one colour in its red plane."""
    pixels = np.zeros((18, 3, 32, 32), np.uint8)
    pixels[:, 0] = 10 * COLOURS[:, None, None]
    if form == "rows":
        return pixels.reshape(18, -1)
    return pixels if form == "planes" else pixels.transpose(0, 2, 3, 1)


def colours(split: tuple[torch.Tensor, torch.Tensor]) -> list[int]:
    """Which images they are; JPEG moves a colour by less than half the way to the next."""
    pixels, labels = split
    digits = (pixels[:, 0].float().mean((1, 2)) / 10).round().int().tolist()
    assert labels.tolist() == [colour // 6 for colour in digits]
    return digits


def as_files(folder: Path, suffix: str, places: range) -> None:
    from PIL import Image

    for place in places:
        file = folder / "abc"[LABELS[place]] / f"{place:02}.{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(painted("last")[place]).save(file)


def as_jpegs(places: range) -> dict[str, np.ndarray]:
    from PIL import Image

    files = []
    for place in places:
        file = io.BytesIO()
        Image.fromarray(painted("last")[place]).save(file, "JPEG", quality=95)
        files.append(file.getvalue())
    return {
        "jpeg": np.frombuffer(b"".join(files), np.uint8),
        "offset": np.cumsum([0, *map(len, files)]),
        "label": LABELS[list(places)].astype(np.uint8),
        "names": np.array(["a", "b", "c"]),
    }


EVEN, ODD = range(0, 18, 2), range(1, 18, 2)


def split_folders(root: Path) -> None:
    as_files(root / "train", "png", EVEN)
    as_files(root / "test", "jpg", ODD)


def one_folder(root: Path) -> None:
    as_files(root, "jpeg", range(18))


def two_archives_of_jpegs(root: Path) -> None:
    np.savez(root / "train.npz", **as_jpegs(EVEN))
    np.savez(root / "test.npz", **as_jpegs(ODD))


def four_arrays(root: Path) -> None:
    pixels = painted("last")
    parts = {"x_train": pixels[::2], "y_train": LABELS[::2]}
    parts |= {"x_test": pixels[1::2], "y_test": LABELS[1::2, None]}
    np.savez(root / "mine.npz", **parts)


def images_and_labels(root: Path) -> None:
    np.savez(root / "mine.npz", images=painted("planes"), labels=LABELS)


def rows_of_pixels(root: Path) -> None:
    np.savez(root / "train.npz", x=painted("rows"), y=LABELS)


SIXTH = [5, 11, 17]  # every sixth of each class
REST = [place for place in range(18) if place not in SIXTH]


@pytest.mark.parametrize(
    ("write", "train", "test"),
    [
        (split_folders, list(EVEN), list(ODD)),
        (one_folder, REST, SIXTH),
        (two_archives_of_jpegs, list(EVEN), list(ODD)),
        (four_arrays, list(EVEN), list(ODD)),
        (images_and_labels, REST, SIXTH),
        (rows_of_pixels, REST, SIXTH),
    ],
)
def test_images_are_read_as_people_keep_them(write, train, test, tmp_path):
    if write in (split_folders, one_folder, two_archives_of_jpegs):
        pytest.importorskip("PIL", reason="Pillow is not installed")
    write(tmp_path)
    loaded = images.load(str(tmp_path))
    assert colours(loaded.train) == train and colours(loaded.test) == test
    assert loaded.classes == 3 and loaded.train[0].shape[1:] == (3, 32, 32)
    assert "no published sum" in loaded.note and loaded.name.startswith(tmp_path.name)
    assert loaded.name != "CIFAR-10"


def test_binary_batches_have_no_published_sum_and_need_unchecked(tmp_path):
    folder = binary(tmp_path / "a")
    with pytest.raises(DataProblem, match=r"not checked: there is no published sum .*--unchecked"):
        images.load(str(folder))
    assert "not checked" in images.load(str(folder), checked=False).note


def broken_jpeg(root: Path) -> None:
    np.savez(root / "train.npz", **(as_jpegs(EVEN) | {"jpeg": np.zeros(90_000, np.uint8)}))


def wrong_offsets(root: Path) -> None:
    stored = as_jpegs(EVEN)
    np.savez(root / "train.npz", **(stored | {"offset": stored["offset"] + 1}))


def wrong_size(root: Path) -> None:
    from PIL import Image

    (root / "a").mkdir()
    Image.new("RGB", (64, 48)).save(root / "a" / "1.png")


def objects(root: Path) -> None:
    np.savez(root / "train.npz", images=np.array([{}], object), labels=np.zeros(1, int))


def floats(root: Path) -> None:
    np.savez(root / "x.npz", images=painted("planes") / 255, labels=LABELS)


def no_keys(root: Path) -> None:
    np.savez(root / "x.npz", weights=np.zeros(3))


def another_class(root: Path) -> None:
    split_folders(root)
    (root / "test" / "a").rename(root / "test" / "z")


def too_few(root: Path) -> None:
    as_files(root, "png", range(3))


@pytest.mark.parametrize(
    ("write", "line"),
    [
        (broken_jpeg, "image 0 of train.npz cannot be read as an image"),
        (wrong_offsets, "offset that does not fit"),
        (wrong_size, "is 64 × 48 pixels, not 32 × 32"),
        (objects, "cannot be read as arrays"),
        (floats, "float64, not uint8"),
        (no_keys, "holds weights: it needs images and labels"),
        (another_class, "has a class 'z'"),
        (too_few, "too few to test"),
    ],
)
def test_images_that_are_wrong_get_one_line(write, line, tmp_path):
    pytest.importorskip("PIL", reason="Pillow is not installed")
    write(tmp_path)
    with pytest.raises(DataProblem, match=line) as problem:
        images.load(str(tmp_path))
    assert "\n" not in str(problem.value)


def test_images_without_pillow_say_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataProblem, match="pip install pillow"):
        images.load(str(tmp_path))


@pytest.mark.parametrize(
    ("names", "trained", "validated", "note"),
    [
        (("train", "valid", "test"), "train", "valid", "trained on train.txt"),
        (("train", "validation"), "train", "validation", "validated on validation.txt"),
        (("train", "test"), "train", "test", "validated on test.txt"),
        (("valid", "test"), "valid", "test", "compares with nothing published"),
    ],
)
def test_plain_text_is_divided_by_the_names_of_its_files(names, trained, validated, note, tmp_path):
    for name in names:
        (tmp_path / f"{name}.txt").write_text(f"this is {name}\n")
    loaded = text.load(str(tmp_path))
    assert bytes(loaded.train.tolist()).decode() == f"this is {trained}\n"
    assert bytes(loaded.valid.tolist()).decode() == f"this is {validated}\n"
    assert note in loaded.note and loaded.words is None
    assert "compares only with runs on the same text" in text.perplexity(1.0, loaded)


@pytest.mark.parametrize("as_folder", [True, False])
def test_a_single_file_of_text_gives_its_last_tenth_for_validation(as_folder, tmp_path):
    lines = [f"line {number}\n" for number in range(40)]
    (tmp_path / "book.txt").write_text("".join(lines))
    loaded = text.load(str(tmp_path if as_folder else tmp_path / "book.txt"))
    assert bytes(loaded.train.tolist()).decode() == "".join(lines[:36])
    assert bytes(loaded.valid.tolist()).decode() == "".join(lines[36:])
    assert "first 36 lines" in loaded.note and loaded.name == "book.txt"


def test_text_that_is_not_there_says_where_it_comes_from(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataProblem, match="WikiText-2 is at https://") as problem:
            text.load(str(folder))
        assert "wiki.train.raw" in str(problem.value) and "\n" not in str(problem.value)
    (tmp_path / "wiki.train.raw").write_text("a\n")
    with pytest.raises(DataProblem, match=r"holds no wiki\.valid"):
        text.load(str(tmp_path))


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
    with pytest.raises(DataProblem, match=line) as problem:
        images.load(str(folder), checked=False)
    assert "\n" not in str(problem.value)


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
    with pytest.raises(DataProblem, match="holds no images; CIFAR-10 is at https"):
        images.load(str(tmp_path))
    with pytest.raises(DataProblem, match="no such file or folder"):
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


def test_a_script_says_it_in_one_line_and_leaves_with_1(watched, monkeypatch):
    for script, words, line in (
        ("resnet50_cifar10.py", ("--data", str(watched / "nowhere")), "error: --data"),
        ("gpt2_wikitext2.py", ("--stack", "acumulation"), "error: no technique is called"),
    ):
        monkeypatch.setattr(sys, "argv", [script, *words])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
        # The interpreter writes a text to stderr, and ends with 1.
        assert str(ended.value.code).startswith(line) and "\n" not in str(ended.value.code)


# -- trainings that fail -------------------------------------------------------------------


def failing(watched: Path, spoiled) -> dict:
    trainer = Trainer(stacked(), samples(256), spoiled, samples=4096, batch_size=32, quiet=True)
    with pytest.raises(TrainingFailed) as failure:
        trainer.fit()
    assert "\n" not in str(failure.value)
    data = newest(watched)
    assert data["run"]["status"] == "failed"
    assert str(failure.value)[:60] in data["run"]["ended_by"], data["run"]["ended_by"]
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


@pytest.mark.full
def test_one_stack_is_trained_once(tmp_path):
    words = ("--seed", "3", "--samples", "640", "--stack", "schedule+clipping")
    done = run("03_did_it_pay.py", *words, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    (trained,) = (tmp_path / "runs").glob("*/run.json")
    assert RunReader(trained.parent).meta["config"]["seed"] == 3


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


@pytest.mark.full
def test_a_training_in_jax_has_its_phases_and_steps(tmp_path):
    need("jax")
    done = run("04_jax.py", "--steps", "50", folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    report = newest(tmp_path)
    counts = {phase["phase"]: phase["count"] for phase in report["phases"]}
    assert counts["data"] == counts["train"] == 50 and counts["startup/compile"] == 1
    assert report["run"]["steps"] == 50 and "50 steps" in done.stdout
    assert report["values"]["samples"]["count"] == 50
