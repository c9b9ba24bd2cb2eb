"""The decoder against a slow oracle written from the rules, in any batches, over holes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe.ring.layout import Code, Record
from probe.ring.reader import SLOT_DTYPE
from probe.timeline import spans as module
from probe.timeline.overlay import overlay
from probe.timeline.span_table import SpanTable
from probe.timeline.spans import SpanDecoder, decode
from tests.fakes.span_sums import counts, seconds

D, F, B, R, C = Code.LOADING, Code.FORWARD, Code.BACKWARD, Code.RECOMPUTE, Code.COMMUNICATION
O, E, X, PRE, TAIL = Code.OPTIMIZER, Code.EVAL, Code.OTHER, Code.PRE, Code.TAIL  # noqa: E741
N, I, AGAIN, NOTHING = Code.NO_GRAD, Code.INFERENCE, Code.RESUMED, Code.EXHAUSTED  # noqa: E741
FIRST, DATA = Code.FIRST_LOADING, int(Code.DATA)
SAVE, SAVING_ON = Code.CHECKPOINT, Code.SAVING_ON
USER = int(Code.USER)


def rows(*marks: Any, step_ns: int = 10) -> Any:
    """Rows from codes; "step" closes a step, "end" ends the run, None drops a record."""
    edges, sequence, steps = [], 0, 0
    for i, mark in enumerate(marks):
        sequence += 1
        at = 1000 + i * step_ns
        if mark is None:
            continue
        if mark == "step":
            edges.append((at, steps, sequence, Record.STEP, 1, 0))
            steps += 1
        elif mark == "end":
            edges.append((at, 0, sequence, Record.END, 0, 0))
        else:
            edges.append((at, -1, sequence, Record.MARK, int(mark), 0))
    return np.array(edges, SLOT_DTYPE)


def spans_of(table: SpanTable) -> list[tuple[int, int, bool]]:
    """(code, step, inferred) of each span."""
    return [
        (int(c), int(s), bool(i))
        for c, s, i in zip(table.code, table.step, table.inferred, strict=True)
    ]


def oracle(table: Any) -> list[tuple[int, int, int, int, bool]]:
    """(begin, end, code, step, inferred), by looking forward from each span."""
    points = []
    for row in table:
        kind, code = int(row["kind"]), int(row["code"])
        points.append((int(row["time_ns"]), kind, code if kind != Record.END else 0))
    spans = []
    step, raw = 0, 0
    for i, (at, kind, code) in enumerate(points[:-1]):
        if kind == Record.STEP:
            step += 1
        else:
            raw = code
        final, inferred = raw, False
        if raw in (TAIL, PRE):
            final = int(X)
            # A step's end or a forward between closes a tail; OTHER, or a forward, ends a pre.
            for later_kind, later in ((k, c) for _, k, c in points[i + 1 :]):
                if later_kind == Record.END or (raw == TAIL and later_kind == Record.STEP):
                    break
                if later_kind != Record.MARK:
                    continue
                if (raw == PRE and later == X) or (raw == TAIL and later in (F, E, N, I)):
                    break
                if later == B:
                    final = int(F)
                    break
            if raw == PRE and final == F:
                begin = max((j for j in range(i) if points[j][1:] == (Record.MARK, B)), default=-1)
                until = next(
                    j for j in range(i + 1, len(points)) if points[j][1:] == (Record.MARK, B)
                )
                between = points[begin + 1 : until]
                if any(k == Record.MARK and c == F for _, k, c in between):
                    final = int(X)
                else:
                    inferred = True
        if raw == N:
            final = without_gradients(points, i)
        if raw in (D, FIRST):
            final = loading(points, i)
        settled = {int(AGAIN): int(O), int(NOTHING): int(X), int(SAVING_ON): int(SAVE)}
        final = settled.get(int(final), final)
        spans.append((at, points[i + 1][0], final, step, inferred))
    return spans


def without_gradients(points: Any, i: int) -> int:
    """Inference if training goes on before anything is loaded."""
    for _, kind, code in points[i + 1 :]:
        if kind == Record.END or (kind == Record.MARK and code in (D, FIRST)):
            return int(E)
        if kind == Record.MARK and code in (F, B):
            return int(I)
    return int(E)


def loading(points: Any, i: int) -> int:
    """An evaluation's, if the next forward is one; an epoch's end goes with the one before."""

    tell = (F, B, E, N, I)

    def evaluates(j: int) -> bool:
        return points[j][2] == E or (points[j][2] == N and without_gradients(points, j) == E)

    marks = [j for j, point in enumerate(points) if point[1] == Record.MARK]
    after = [j for j in marks if j > i and points[j][2] in (*tell, FIRST)][:1]
    if points[i + 1][1:] == (Record.MARK, NOTHING) or any(points[j][2] == FIRST for j in after):
        after = [j for j in marks if j <= i and points[j][2] in tell][-1:]
    return int(E) if any(evaluates(j) for j in after) else int(Code.DATA)


codes = st.sampled_from(
    [D, FIRST, F, B, R, C, O, E, X, PRE, TAIL, N, I, AGAIN, NOTHING, SAVE, SAVING_ON, USER, "step"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(codes, min_size=2, max_size=60), st.booleans(), st.data())
def test_any_sequence_in_any_batches(marks: list[Any], ended: bool, data: Any) -> None:
    table = rows(*marks, *(["end"] if ended else []))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(table)), max_size=5)))
    decoder = SpanDecoder()
    parts = [decoder.feed(table[a:b]) for a, b in zip([0, *cuts], [*cuts, len(table)], strict=True)]
    whole = SpanTable.concat([*parts, decoder.finish()])
    expected = oracle(table)
    spans = list(
        zip(
            whole.begin_ns.tolist(),
            whole.end_ns.tolist(),
            whole.code.tolist(),
            whole.step.tolist(),
            whole.inferred.tolist(),
            strict=True,
        )
    )
    assert spans == expected
    assert (whole.end_ns - whole.begin_ns).sum() == table["time_ns"][-1] - table["time_ns"][0]
    at_once = decode(table)
    for name in ("micro", "entered", "code"):
        assert (getattr(at_once, name) == getattr(whole, name)).all(), name


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(codes, st.none()), min_size=3, max_size=60), st.data())
def test_nothing_is_attributed_to_a_hole(marks: list[Any], data: Any) -> None:
    table = rows(X, *marks, X)
    cut = data.draw(st.integers(0, len(table)))
    decoder = SpanDecoder()
    whole = SpanTable.concat(
        [decoder.feed(table[:cut]), decoder.feed(table[cut:]), decoder.finish()]
    )
    assert (whole.end_ns - whole.begin_ns).sum() == table["time_ns"][-1] - table["time_ns"][0]
    assert (whole.begin_ns[1:] == whole.end_ns[:-1]).all()
    for i in range(1, len(table)):
        if int(table["sequence"][i]) - int(table["sequence"][i - 1]) > 1:
            inside = (whole.begin_ns >= table["time_ns"][i - 1]) & (
                whole.end_ns <= table["time_ns"][i]
            )
            assert (whole.code[inside] == Code.OUTSIDE).all()


def test_holes_can_be_given_by_time() -> None:
    table = rows(D, F, None, None, B, X)
    given_holes = [(1010, 1040, 2)]
    assert spans_of(decode(table, holes=given_holes)) == spans_of(decode(table))
    assert (int(Code.OUTSIDE), 0, False) in spans_of(decode(table))
    assert (int(Code.OUTSIDE), 0, False) not in spans_of(decode(table, holes=()))


def test_a_usual_step() -> None:
    table = decode(rows(X, D, PRE, F, TAIL, B, X, O, X, "step", D, "end"))
    assert [c for c, _, _ in spans_of(table)] == [X, DATA, X, F, F, B, X, O, X, X, DATA]
    assert [s for _, s, _ in spans_of(table)] == [0] * 9 + [1] * 2
    assert counts(table) == {DATA: 2, F: 1, B: 1, O: 1, X: 4}
    assert table.micro.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0]


def test_forward_is_inferred_where_no_hook_saw_it() -> None:
    table = decode(rows(D, PRE, B, X, O, X, "step", D, PRE, B, X, "end"))
    assert [c for c, _, i in spans_of(table) if i] == [F, F]
    assert counts(table)[int(F)] == 2


def test_a_compiled_evaluation_is_not_forward() -> None:
    table = decode(rows(D, PRE, D, PRE, D, X, D, PRE, B, X))
    assert [c for c, _, _ in spans_of(table)] == [DATA, X, DATA, X, DATA, X, DATA, F, B]


def test_counts_do_not_see_interruptions() -> None:
    table = decode(rows(F, TAIL, B, C, B, R, B, C, B, X, B, X, O, C, O, X, USER, X, "end"))
    assert counts(table) == {F: 1, B: 2, C: 3, R: 1, O: 1, X: 3, USER: 1}
    assert table.micro[-1] == 2


def test_a_save_that_goes_on_is_no_other_visit() -> None:
    table = decode(rows(F, SAVE, USER, SAVING_ON, X, F, SAVING_ON, X, "end"))
    assert counts(table)[int(SAVE)] == 1 and counts(table)[int(F)] == 2
    assert sum(s for (_, code), s in seconds(table).items() if code == SAVE) == pytest.approx(30e-9)


def test_a_phase_over_a_steps_end_counts_once() -> None:
    table = decode(rows(X, USER, "step", "step", X, "end"))
    assert counts(table)[USER] == 1
    assert seconds(table)[1, USER] == pytest.approx(10e-9)


def test_steps_that_never_close_are_decided_anyway() -> None:
    decoder = SpanDecoder()
    cycle = rows(*[D, PRE] * 5000)
    first, out = int(cycle["time_ns"][-1]) + 10 - 1000, 0
    for i in range(60):
        batch = cycle.copy()
        batch["time_ns"] += np.uint64(i * first)
        batch["sequence"] += np.uint32(i * len(batch))
        out += len(decoder.feed(batch))
        assert len(decoder._held.time) <= module.PENDING + len(batch)
    assert out > 60 * len(cycle) - module.PENDING - len(cycle)


def test_overlay_replaces_only_backward() -> None:
    main = decode(rows(F, B, B, X, "end", step_ns=100))  # F 1000, B 1100–1300, X 1300–1400
    other = np.array(
        [
            (1050, -1, 1, Record.MARK, R, 0),
            (1150, -1, 2, Record.LEAVE, R, 0),
            (1200, -1, 3, Record.MARK, C, 0),
            (1220, -1, 4, Record.MARK, R, 0),
            (1350, -1, 5, Record.LEAVE, R, 0),
        ],
        SLOT_DTYPE,
    )
    table = overlay(main, other)
    told_times = [
        (int(b), int(e), int(c))
        for b, e, c in zip(table.begin_ns, table.end_ns, table.code, strict=True)
    ]
    merged: list[tuple[int, int, int]] = []
    for begin, end, code in told_times:
        if merged and merged[-1][2] == code:
            merged[-1] = (merged[-1][0], end, code)
        else:
            merged.append((begin, end, code))
    assert merged == [
        (1000, 1100, F),
        (1100, 1150, R),
        (1150, 1200, B),
        (1200, 1220, C),
        (1220, 1300, R),
        (1300, 1400, X),
    ]
    assert counts(table)[int(B)] == 1 and counts(table)[int(R)] == 2


@settings(max_examples=100, deadline=None)
@given(
    st.lists(codes, min_size=2, max_size=40),
    st.lists(st.tuples(st.integers(0, 500), st.sampled_from([R, C, USER, None])), max_size=20),
)
def test_overlay_keeps_the_time(marks: list[Any], theirs: list[tuple[int, Any]]) -> None:
    main = decode(rows(*marks, "end"))
    theirs.sort(key=lambda pair: pair[0])
    other = np.array(
        [
            (990 + at, -1, i, Record.LEAVE if code is None else Record.MARK, code or 0, 0)
            for i, (at, code) in enumerate(theirs)
        ],
        SLOT_DTYPE,
    )
    table = overlay(main, other)
    assert (table.end_ns - table.begin_ns).sum() == (main.end_ns - main.begin_ns).sum()
    before, after = seconds(main), seconds(table)
    for key, value in before.items():
        if key[1] not in (B, R, C):
            assert after[key] == pytest.approx(value)
    assert counts(table).get(int(F)) == counts(main).get(int(F))


def test_three_million_edges_per_second() -> None:
    cycle = [X, D, PRE, F, TAIL, B, X, O, X, "step"]
    table = rows(*cycle * 20_000)
    table["payload"][table["kind"] == Record.STEP] = np.arange(20_000)
    best = 1e9
    for _ in range(5):
        decoder = SpanDecoder()
        begin = time.process_time()
        for part in np.array_split(table, 8):
            decoder.feed(part)
        decoder.finish()
        best = min(best, time.process_time() - begin)
    rate = len(table) / best
    print(f"{rate / 1e6:.1f} M edges/s")
    assert rate > 1e6  # a third of the bar: this also runs on busy machines


def test_ledger_adds_up() -> None:
    table = decode(rows(X, D, F, TAIL, B, X, O, X, "step", D, F, TAIL, B, "end"))
    ledger = table.ledger()
    assert ledger["time_ns"].sum() == table.end_ns[-1] - table.begin_ns[0]
    assert set(ledger["step"].tolist()) == {0, 1}


def test_nothing_gives_nothing() -> None:
    empty = np.empty(0, SLOT_DTYPE)
    assert len(decode(empty)) == 0 and counts(decode(empty)) == {}
    assert len(overlay(SpanTable.empty(), rows(R))) == 0
    assert len(decode(rows(X))) == 0
