"""The HTML report as a reader sees it: no request, no error, nothing that runs over the edge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from probe.compare import formats
from probe.report.build import report_of
from tests.contract.test_comparisons import comparison_of
from tests.fakes.exported_runs import HOSTILE, HOSTILE_STEPPED, STEPPED, stored_run
from tests.fakes.recordings import RecordedRuns, needs

pytestmark = needs(STEPPED, HOSTILE_STEPPED)
# Each appearance costs a browser seconds: the light one in `make test`, all in `make test-full`.
APPEARANCES = [
    ("light", 1280),
    pytest.param("dark", 1280, marks=pytest.mark.full),
    pytest.param("light", 360, marks=pytest.mark.full),
]


@pytest.fixture(scope="module", params=[STEPPED, HOSTILE_STEPPED], ids=["plain name", "hostile"])
def file(
    request: pytest.FixtureRequest,
    recorded_runs: RecordedRuns,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    path = tmp_path_factory.mktemp("html") / "report.html"
    run = stored_run(recorded_runs[request.param])
    path.write_text(str(report_of(run.path).render("html")), encoding="utf-8")
    assert path.stat().st_size < 2_000_000
    return path


@pytest.mark.parametrize(("scheme", "width"), APPEARANCES)
@pytest.mark.parametrize("name", ["base", HOSTILE])
def test_a_comparison_opens_too(
    name: str, scheme: str, width: int, browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "comparison.html"
    path.write_text(formats.render(comparison_of(name, "refused"), "html"), encoding="utf-8")
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    said: list[str] = []
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append("a dialog"))
    page.goto(path.as_uri())
    assert asked == [path.as_uri()] and not said
    assert page.locator("table").count() >= 4 and "less energy per sample" in page.inner_text(
        "body"
    )
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0, f"{wide} px run over the edge at {width} px"
    page.screenshot(path=tmp_path / f"comparison-{scheme}-{width}.png", full_page=True)
    page.close()


@pytest.mark.parametrize(("scheme", "width"), APPEARANCES)
def test_it_opens_alone_and_without_error(
    file: Path, scheme: str, width: int, browser: Any, tmp_path: Path
) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append("a dialog"))
    page.goto(file.as_uri())
    page.wait_for_timeout(200)
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    assert not said
    assert page.locator("svg, img").count() >= 3
    assert page.locator("table").count() >= 1
    assert "forward" in page.inner_text("body")
    assert page.locator("body script:not([src])").count() == 0
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0, f"{wide} px run over the edge at {width} px"
    page.screenshot(path=tmp_path / "report.png", full_page=True)
    page.close()
