"""The shape of the code: what only passes on, and how long files and folders get."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("probe", "optimizers", "exporters", "dashboard")

# Functions that only call another with their own arguments: an object hides what it is made of, or
# a protocol of Python asks for the method.
PASS_ON = {
    "probe.session.run.Run.phase",
    "probe.session.run.Run.note",
    "probe.recorder.drain.RingDrain.hold",
    "probe.recorder.drain.RingDrain.beat",
    "probe.recorder.pipeline.pipeline.Pipeline.lost",
    "probe.recorder.pipeline.summary.SummaryStage.advance",  # guarded
    "probe.attribution.meter.energy_knots.CounterKnots.restart",
    "probe.attribution.meter.summary.MeterSummarizer.restart",
    "probe.instrument.patches.import_hooks._Loader.create_module",
    "probe.instrument.training_threads.TrainingThreads.forward_begin",  # of the thread's machine
    "probe.instrument.training_threads.TrainingThreads.forward_end",
}
LONG_FILES = 300
FULL_FOLDERS = 15


def sources() -> Iterator[Path]:
    for package in PRODUCT:
        yield from sorted((ROOT / package).rglob("*.py"))


def functions(
    tree: ast.AST, name: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name}.{node.name}", node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from functions(node, f"{name}.{node.name}")


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def passes_on(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True if all that it does is to call another function with its own arguments."""
    body = [statement for statement in function.body if not is_docstring(statement)]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call, given = body[0].value, function.args
    if not isinstance(call, ast.Call):
        return False
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names = names[1:] if names[:1] in (["self"], ["cls"]) else names
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [given.kwarg.arg] if given.kwarg else []
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return bool(names) and [ast.unparse(value) for value in values] == names


def test_only_listed_functions_just_pass_their_arguments_on() -> None:
    passing = set()
    for path in sources():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        passing |= {name for name, function in functions(tree, module) if passes_on(function)}
    assert passing == PASS_ON


def test_a_long_file_or_a_full_folder_has_its_reason_in_the_architecture() -> None:
    text = (ROOT / "probe/ARCHITECTURE.md").read_text(encoding="utf-8")
    reasons = text.partition("**Some files stay longer")[2].partition("\n- **")[0]
    folders: dict[Path, int] = {}
    for path in sources():
        folders[path.parent] = folders.get(path.parent, 0) + 1
        if len(path.read_text(encoding="utf-8").splitlines()) > LONG_FILES:
            assert f"{path.parent.name}/{path.name}" in reasons, path
    for folder, files in folders.items():
        assert files <= FULL_FOLDERS or f"`{folder.name}/`" in reasons.replace("optimizers/", ""), (
            folder
        )
