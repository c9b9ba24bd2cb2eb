"""A page's state is its URL; nonsense in it is as if it were not there."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.pages._comparison import query as comparison_query
from dashboard.urls import Selection, chart, run


@given(
    st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)) | st.none(),
    st.lists(st.text("abcgpu0123/", min_size=1), max_size=4, unique=True),
)
def test_a_state_goes_into_an_address_and_comes_back(span, devices) -> None:
    if span is not None and not round(span[0], 6) < round(span[1], 6):
        span = None
    state = Selection(span, None, tuple(devices))
    query = parse_qs(urlsplit(run("an id", state)).query)
    back = Selection.of({key: values[0] for key, values in query.items()})
    assert back.devices == state.devices
    assert (back.span is None) == (span is None)
    if span is not None and back.span is not None:
        assert back.span == pytest.approx(span, abs=1e-6)


@given(
    st.text() | st.integers() | st.none() | st.lists(st.text()),
    st.text() | st.integers() | st.none(),
)
def test_any_query_is_a_state_of_any_run(t, d) -> None:
    low, high = Selection.of({"t": t, "d": d}).within(12.0)
    assert 0 <= low < high <= 12.0


@pytest.mark.parametrize(
    ("t", "within"),
    [
        ("2-5", (2, 5)),
        ("last-3", (9, 12)),
        ("last-60", (0, 12)),
        ("5-2", (0, 12)),
        ("nan-1", (0, 12)),
        ("0-inf", (0, 12)),
        ("-1-4", (0, 12)),
        ("4-400", (4, 12)),
        ("1e300-2e300", (0, 12)),
        ("", (0, 12)),
    ],
)
def test_which_part_of_twelve_seconds(t: str, within: tuple[float, float]) -> None:
    assert Selection.of({"t": t}).within(12.0) == pytest.approx(within)


def test_names_cannot_leave_their_place_in_an_address() -> None:
    assert run("../../etc/passwd") == "/run/..%2F..%2Fetc%2Fpasswd"
    assert urlsplit(run("a?t=1#x")).query == ""
    asked = comparison_query("a&b", ["c=d", "e"], "loss<=2")
    for address in chart("gains", "../x", asked=asked):
        assert urlsplit(address).path.endswith("gains/..%2Fx")
        assert parse_qs(urlsplit(address).query) == {
            "base": ["a&b"],
            "other": ["c=d", "e"],
            "target": ["loss<=2"],
        }
