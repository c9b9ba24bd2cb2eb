"""Tags and notes are written by pages of this server alone, with its token, and shown as text."""

from __future__ import annotations

import os
import random
import string
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from dashboard.access import Access
from dashboard.app import create_app
from dashboard.context import AppContext
from dashboard.pages import _labels, runs
from probe.store.catalogue.labels import Labels, change_labels, read_labels
from probe.store.runs import create_run

ID = "20260101-000000-aaa"
OWN = {"Origin": "http://localhost"}
TOKEN = "correct horse"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return create_run(tmp_path, ID, shared=False, fields={"name": "x"})


def client(run: Path, access: Access | None = None, base: str = "/") -> FlaskClient:
    return create_app(run.parent, access or Access(), base).test_client()


def test_a_page_of_this_server_writes_and_is_told_what_is_there_now(run: Path) -> None:
    asker = client(run, base="/energy")
    answer = asker.post(f"/energy/labels/{ID}", json={"add": ["a"], "note": "n"}, headers=OWN)
    assert answer.get_json() == {"tags": ["a"], "note": "n", "archived": False}
    assert (
        asker.post(f"/energy/labels/{ID}", json={"archived": True}, headers=OWN).status_code == 200
    )
    assert read_labels(run) == Labels(("a",), "n", True)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "http://localhost:81"},
        {"Origin": "ftp://localhost"},
        {"Origin": "http://evil.example", "Host": "evil.example"},
        OWN | {"Sec-Fetch-Site": "cross-site"},
        OWN | {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_sites_write_nothing(headers: dict[str, str], run: Path) -> None:
    answer = client(run).post(f"/labels/{ID}", json={"note": "n"}, headers=headers)
    assert answer.status_code == 403 and answer.text.count("\n") == 1
    assert read_labels(run) == Labels()


def test_without_the_token_nothing_is_written(run: Path) -> None:
    asker = client(run, Access(token=TOKEN))
    for headers in ({}, {"Authorization": "Bearer x"}):
        refused = asker.post(f"/labels/{ID}", json={"note": "n"}, headers=OWN | headers)
        assert refused.status_code == 401
    assert read_labels(run) == Labels()
    right = OWN | {"Authorization": f"Bearer {TOKEN}"}
    assert asker.post(f"/labels/{ID}", json={"note": "n"}, headers=right).status_code == 200


@pytest.mark.parametrize("method", ["get", "head", "put", "patch", "delete"])
def test_only_post_writes(method: str, run: Path) -> None:
    asker = client(run)
    answer = getattr(asker, method)(f"/labels/{ID}?note=n", json={"note": "n"}, headers=OWN)
    assert answer.status_code == 405
    assert asker.get("/labels/").status_code in (200, 404) and read_labels(run) == Labels()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"note": "x" * 10_001}, 400),
        ({"note": "x" * 100_000}, 400),
        ({"add": ["a b"]}, 400),
        ({"add": "ab"}, 400),
        ({"add": [1]}, 400),
        ({"note": None}, 400),
        ({"archived": 1}, 400),
        ({"delete": True}, 400),
        ({}, 400),
        ([], 400),
        ("note", 400),
        ({"note": "new", "note_before": "another"}, 400),
    ],
)
def test_what_is_no_change_is_refused_in_a_line(sent: Any, code: int, run: Path) -> None:
    answer = client(run).post(f"/labels/{ID}", json=sent, headers=OWN)
    assert answer.status_code == code and answer.text.count("\n") == 1
    assert read_labels(run) == Labels()


def test_a_form_is_no_json(run: Path) -> None:
    asker = client(run)
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        body = '{"note": "n"}'
        answer = asker.post(f"/labels/{ID}", data=body, content_type=kind, headers=OWN)
        assert answer.status_code == 400
    assert read_labels(run) == Labels()


@pytest.mark.parametrize(
    "name", ["nothing", ".", "..", "%2e%2e", "..%2f..", ".labels.lock", f"{ID}~9", f"{ID}%00", "~1"]
)
def test_no_run_no_file(name: str, run: Path) -> None:
    before = sorted(run.parent.rglob("*"))
    answer = client(run).post(f"/labels/{name}", json={"note": "n"}, headers=OWN)
    assert answer.status_code in (404, 405, 308) and sorted(run.parent.rglob("*")) == before


def test_runs_of_others_and_read_only_ones_are_refused(run: Path) -> None:
    asker = client(run)
    run.chmod(0o555)
    answer = asker.post(f"/labels/{ID}", json={"note": "n"}, headers=OWN)
    assert answer.status_code == 403
    assert answer.text == f"{ID} is read-only: its labels cannot be changed\n"
    run.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(run, 12345, 12345)
        answer = asker.post(f"/labels/{ID}", json={"note": "n"}, headers=OWN)
        assert answer.status_code == 403 and "belongs to 12345" in answer.text
    assert read_labels(run) == Labels()


def test_a_note_is_text_on_every_page(run: Path) -> None:
    """Dash sends strings as children, which the browser shows as they are."""
    change_labels(run, note=SCRIPT)
    context = AppContext(run.parent)
    app = create_app(run.parent, Access())
    with app.test_request_context("/"):
        pages = runs.PAGE.layout(context, {}), _labels.labels(context, ID)
    for page in pages:
        kinds = {type(part).__name__ for part in page._traverse()}
        assert kinds.isdisjoint({"Markdown", "DangerouslySetInnerHTML", "Script", "Iframe"})
        assert SCRIPT in str(page.to_plotly_json())


def test_nonsense_is_answered_in_a_line(run: Path) -> None:
    chance, asker = random.Random(1), client(run)

    def some(depth: int = 0) -> Any:
        kinds = [
            lambda: None,
            lambda: chance.choice([True, 0, -1, 2**70, 1e308]),
            lambda: "".join(chance.choices(string.printable + "é\ud800\u2028\x00", k=9)),
        ]
        if depth < 3:
            kinds.append(lambda: [some(depth + 1) for _ in range(chance.randrange(4))])
            keys = ["add", "remove", "note", "note_before", "archived", "x"]
            kinds.append(lambda: {chance.choice(keys): some(depth + 1) for _ in range(3)})
        return chance.choice(kinds)()

    codes = set()
    for turn in range(300):
        sent = {"note": some(3)} if turn % 3 == 0 else some()
        answer = asker.post(f"/labels/{ID}", json=sent, headers=OWN)
        codes.add(answer.status_code)
        assert answer.status_code < 500 and "Traceback" not in answer.text
    assert codes <= {200, 400} and len(codes) == 2
