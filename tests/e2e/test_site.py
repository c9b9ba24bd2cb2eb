"""The site of ``make docs`` in a browser: accessible, light and dark, on a phone; its search."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from docs.site import navigation
from tests.fakes.processes import HUNG_S, ROOT

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("site")]

QUESTIONS = {  # what a new reader asks, and where the first page's link leads
    "install it": "Install",
    "see a first table": "The first table",
    "know why a phase is refused": "Why is my phase refused?",
    "know what weak means": "Resolved, weak, bounds only",
    "know whether it slows your training": "Does it slow my training?",
    "add a sensor": "A sensor",
}
PAGES = ("index", "concepts", "extend", "reference/python", "search")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Nothing on stderr."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from this checkout; a broken link fails the build."""
    if importlib.util.find_spec("sphinx") is None:
        pytest.skip("needs the extra docs: make docs")
    folder = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "docs.site", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * HUNG_S,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where the site is served, on loopback."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A tab; a request to any other place than the site fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    elsewhere: list[str] = []
    tab.on("request", lambda request: elsewhere.append(request.url))
    yield tab
    context.close()
    assert not [url for url in elsewhere if not url.startswith((address, "data:", "file:"))]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_can_be_read_by_everybody(page: Any, address: str, scheme: str, width: int) -> None:
    from axe_core_python.sync_playwright import Axe

    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    for name in PAGES:
        page.goto(f"{address}{name}.html{'?q=weak' if name == 'search' else ''}")
        faults = Axe().run(page)["violations"]
        assert not faults, [(f["id"], f["nodes"][0]["html"][:200]) for f in faults]
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is {wide} px wider than the screen"


def test_every_page_of_the_navigation_is_there_under_its_own_title(site: Path) -> None:
    """None lies where the generator writes a page of its own, as it does its search."""
    for file, place in navigation.PAGES.items():
        if file.startswith("("):
            continue
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        title = next(line for line in lines if line.startswith("# "))[2:].replace("`", "")
        html = (site / f"{place}.html").read_text(encoding="utf-8")
        shown = re.search(r"<h1>(.*?)<a class=\"headerlink\"", html, re.DOTALL)
        assert shown, file
        heading = unescape(re.sub("<[^>]+>", "", shown[1])).replace("’", "'")
        assert heading == title, file


def test_each_first_question_is_one_click_away(page: Any, address: str) -> None:
    for question, heading in QUESTIONS.items():
        page.goto(f"{address}index.html")
        row = page.locator("table tr", has=page.get_by_text(question, exact=True))
        row.locator("a").click()
        anchor = page.evaluate("decodeURIComponent(location.hash.slice(1))")
        section = page.locator(f"section[id='{anchor}'] > :is(h1, h2, h3)")
        assert section.first.inner_text().rstrip("¶# ") == heading, question


def test_the_search_works_without_a_server(page: Any, site: Path) -> None:
    page.goto(f"file://{site}/index.html")
    page.locator("input[name=q]").first.fill("lock with the meter")
    page.keyboard.press("Enter")
    page.get_by_text("Search finished").wait_for(timeout=HUNG_S * 1000)  # results come one by one
    results = page.locator("#search-results li a").all_inner_texts()
    assert {"Questions", "Known limits"} <= set(results)
