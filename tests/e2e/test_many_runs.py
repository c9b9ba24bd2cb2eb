"""The list of 10,000 runs in a browser: whole at every width, the newest first, searched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.many_runs import store_many_runs

from .conftest import Shown, end, serve
from .page_checks import looks_right
from .test_dashboard_browser import MOST_SHIFT, opened, settled, until

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("many runs")]

RUNS = 10_000
ROWS = "document.querySelectorAll('table.runs tbody tr').length"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    directory = tmp_path_factory.mktemp("many")
    store_many_runs(directory, RUNS)
    server, url = serve(directory)
    yield Shown(url, directory, {})
    end(server)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440, 3840])
def test_the_list_is_whole(width: int, scheme: str, browser: Any, many: Shown) -> None:
    with opened(browser, many, "", scheme=scheme, width=width) as page:
        settled(page, "runs")
        assert page.evaluate("window.shifted") <= MOST_SHIFT
        assert looks_right(page) == []
        assert "10000 runs" in page.locator(".sums").first.inner_text()


def test_the_newest_is_first_and_a_search_reaches_all_of_them(browser: Any, many: Shown) -> None:
    with opened(browser, many, "") as page:
        settled(page, "runs")
        first = page.locator("table.runs tbody tr .id").first.inner_text()
        assert first.endswith(f"{RUNS - 1:06x}")
        page.locator("#runs-search").fill("name7 lr=9.847")
        until(page, f"{ROWS} === 1")
        assert page.locator("table.runs tbody tr .id").inner_text().endswith(f"{9847:06x}")
