"""Who may look, and what happens to those who ask for nonsense: refused in a line, never a 500."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from dashboard.access import Access
from dashboard.app import create_app
from dashboard.server import Serving
from probe.errors import UsageError
from tests.contract.test_comparisons import HOSTILE
from tests.fakes import processes
from tests.fakes.stored_run import counter, energy_source, stored_run

BEGIN = 1_000_000_000_000
SECRET = "correct horse"
RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("access") / "runs"
    source = energy_source(0), counter(BEGIN, 30.0, 250.0)
    stored_run(folder, [source], 30.0, run_id="plain", steps=250)
    stored_run(folder, [source], 30.0, run_id="hostile", name=HOSTILE, steps=250)
    torn = stored_run(folder, [source], 30.0, run_id="torn")
    (torn / "run.json").write_text('{"schema": 1, "id"')
    (folder.parent / "secret.txt").write_text("do not show")
    (folder / "not-a-run").mkdir()
    ablation = folder / "ablation"
    ablation.mkdir()
    shutil.copy(RESULTS / "energy" / "ablation-cumulative.json", ablation / "result.json")
    (folder / "broken").mkdir()
    (folder / "broken" / "result.json").write_text('{"techniques": ["x"], "design": "odd"}')
    return folder


def client(directory: Path, access: Access | None = None, base: str = "/") -> FlaskClient:
    return create_app(directory, access or Access(), base).test_client()


@pytest.fixture(scope="module")
def app(directory: Path) -> Flask:
    return create_app(directory, Access(), "/")


# -- who may look --------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "example.org", "::"])
def test_other_addresses_need_a_token(host: str) -> None:
    with pytest.raises(UsageError, match="give a token"):
        Access(host)
    assert Access(host, token=SECRET).token == SECRET
    with pytest.raises(UsageError, match="empty"):
        Access(token=" ")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "",
        "127.0.0.2",
        "[::ffff:1.2.3.4]",
        "a b",
        "[",
        "evil@localhost.x",
    ],
)
def test_a_foreign_host_header_is_refused(host: str, app: Flask) -> None:
    for path in ("/", "/_dash-layout", "/csv/run/plain/phases", "/assets/style.css"):
        answer = app.test_client().get(path, headers={"Host": host})
        assert answer.status_code == 403, (host, path)
        assert answer.text.count("\n") == 1


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8050", "127.0.0.1:9", "[::1]:8050", "LOCALHOST"]
)
def test_our_own_names_are_known(host: str, app: Flask) -> None:
    assert app.test_client().get("/", headers={"Host": host}).status_code == 200


def test_a_proxys_name_is_allowed_when_it_is_given(directory: Path) -> None:
    proxied = client(directory, Access(allowed=("grid.example",)), "/energy")
    headers = {"Host": "grid.example"}
    assert proxied.get("/energy/", headers=headers).status_code == 200
    assert proxied.get("/energy/csv/run/plain/power", headers=headers).status_code == 200
    assert "/energy/assets/style.css" in proxied.get("/energy/", headers=headers).text
    assert proxied.get("/", headers=headers).status_code == 404
    assert proxied.get("/energy/", headers={"Host": "other.example"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": SECRET},
        {"Authorization": f"Basic {SECRET}"},
        {"Cookie": "phasewatt-8050=wrong"},
        {"Cookie": f"phasewatt={SECRET}"},
        {"Authorization": "Bearer \xe9"},
    ],
)
def test_without_the_token_nothing_is_shown(headers: dict[str, str], directory: Path) -> None:
    guarded = client(directory, Access(token=SECRET))
    for path in (
        "/",
        "/_dash-layout",
        "/_dash-dependencies",
        "/csv/run/plain/phases",
        "/table/run/plain/phases",
        "/assets/style.css",
        "/?token=wrong",
        "/?token=",
    ):
        answer = guarded.get(path, headers=headers)
        assert answer.status_code == 401, path
        assert "plain" not in answer.text and "WWW-Authenticate" in answer.headers
    assert guarded.post("/_dash-update-component", json={}, headers=headers).status_code == 401


def test_the_token_opens_by_header_or_once_in_the_address(directory: Path) -> None:
    guarded = client(directory, Access(token=SECRET))
    bearer = {"Authorization": f"Bearer {SECRET}"}
    assert guarded.get("/csv/run/plain/phases", headers=bearer).status_code == 200
    answer = guarded.get("/run/plain?t=1-2&token=correct+horse")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
    assert SECRET not in answer.text and "t=1-2" in answer.text and "token" not in answer.text
    assert guarded.get("/run/plain").status_code == 200  # by the cookie
    away = client(directory, Access(token=SECRET)).get(
        "/x?token=correct+horse", environ_overrides={"PATH_INFO": "//evil.example/x"}
    )
    assert "url=/evil.example" in away.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://localhost:9999"},
    ],
)
def test_another_sites_requests_are_refused(headers: dict[str, str], app: Flask) -> None:
    answer = app.test_client().post("/_dash-update-component", json={}, headers=headers)
    assert answer.status_code == 403
    if "Sec-Fetch-Site" in headers:
        read = app.test_client().get(
            "/csv/run/plain/phases", headers=headers | {"Sec-Fetch-Mode": "cors"}
        )
        assert read.status_code == 403
        link = app.test_client().get("/", headers=headers | {"Sec-Fetch-Mode": "navigate"})
        assert link.status_code == 200


def test_pages_forbid_scripts_and_frames_of_others(app: Flask) -> None:
    headers = app.test_client().get("/").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'self' 'sha256-" in policy and "script-src 'unsafe-inline'" not in policy
    assert headers["X-Frame-Options"] == "DENY" and headers["X-Content-Type-Options"] == "nosniff"


# -- what leads out of the directory -------------------------------------------------

PATHS = [
    "..",
    "../secret.txt",
    "%2e%2e",
    "..%2f..%2fsecret.txt",
    "%2e%2e%2fsecret.txt",
    "....//secret.txt",
    "..\\secret.txt",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "plain%00",
    ".",
    "not-a-run",
    "nothing",
    "plain/../../secret.txt",
    "%252e%252e%252fsecret.txt",
    "a" * 5000,
    "~root",
    "$HOME",
    "plain%0d%0aSet-Cookie:x=y",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "kind",
    [
        "/csv/run/{}/phases",
        "/table/run/{}/power",
        "/csv/run/plain/{}",
        "/table/gains/{}",
        "/csv/ablation/{}",
        "/assets/{}",
        "/table/gains/pareto?base={}&other=plain",
    ],
)
def test_no_path_leads_out(kind: str, path: str, app: Flask) -> None:
    answer = app.test_client().get(kind.format(path))
    # Dash answers an address that nobody knows with its page, which then says so.
    ours = answer.status_code == 200 and "react-entry-point" in answer.text
    assert ours or answer.status_code in (301, 308, 400, 404), answer.status_code
    assert "do not show" not in answer.text and "root:" not in answer.text
    assert "Traceback" not in answer.text
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("path", PATHS)
def test_no_run_id_leads_out_of_a_callback(path: str, app: Flask) -> None:
    for output, text in callback(app, "run-head", path):
        assert "do not show" not in text and "Traceback" not in text, output


def test_what_is_damaged_is_said_in_a_line(app: Flask) -> None:
    answer = app.test_client().get("/csv/run/torn/phases")
    assert answer.status_code == 404 and answer.text.count("\n") == 1
    assert "run.json" in answer.text


def test_ablations_beside_the_runs_are_shown(app: Flask) -> None:
    answer = app.test_client().get("/csv/ablation/ablation")
    assert answer.status_code == 200 and "checkpointing" in answer.text
    assert app.test_client().get("/csv/ablation/broken").status_code == 404
    page = [text for _, text in callback(app, "_pages_content", "/gains")]
    assert "Ablation in ablation" in page[0] and "another version" in page[0]


# -- hostile names -------------------------------------------------------------------


@pytest.mark.parametrize(
    "view", ["phases", "waste", "power", "heatmap", "anatomy", "drift", "memory", "quality"]
)
def test_a_hostile_name_is_text_everywhere(view: str, app: Flask) -> None:
    page = app.test_client().get(f"/table/run/hostile/{view}")
    assert page.status_code == 200 and "<script>alert" not in page.text
    answer = app.test_client().get(f"/csv/run/hostile/{view}")
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/csv")
    assert "attachment" in answer.headers["Content-Disposition"]


def test_no_cell_of_a_csv_is_a_formula() -> None:
    from dashboard.downloads import _harmless

    cells = ["=cmd|' /C calc'!A0", "+1", "@x", "-1+2", -3.5, 4, None, "plain", "\tx"]
    assert [str(c)[:1] for c in _harmless(cells) if isinstance(c, str)] == ["'"] * 4 + ["p", "'"]


# -- nonsense ------------------------------------------------------------------------


def dependencies(app: Flask) -> list[dict[str, Any]]:
    return list(app.test_client().get("/_dash-dependencies").get_json())


def payload(callback: dict[str, Any], value: Any) -> dict[str, Any]:
    """What a browser sends for a callback, every value being ``value``."""

    def of(part: dict[str, Any]) -> dict[str, Any]:
        id_ = part["id"]
        return {
            "id": json.loads(id_) if id_.startswith("{") else id_,
            "property": part["property"],
            "value": value,
        }

    outputs = callback["output"].strip(".").split("...")
    listed = []
    for output in outputs:
        id_, _, property_ = output.rpartition(".")
        listed.append(
            {
                "id": json.loads(id_) if id_.startswith("{") else id_,
                "property": property_.partition("@")[0],
            }
        )
    first = callback["inputs"][0]
    return {
        "output": callback["output"],
        "outputs": listed if callback["output"].startswith("..") else listed[0],
        "inputs": [of(p) for p in callback["inputs"]],
        "state": [of(p) for p in callback["state"]],
        "changedPropIds": [f"{first['id']}.{first['property']}"],
    }


def callback(app: Flask, output: str, value: Any) -> list[tuple[str, str]]:
    leaky = []
    for callback in dependencies(app):
        if output in callback["output"] and callback["clientside_function"] is None:
            answer = app.test_client().post(
                "/_dash-update-component", json=payload(callback, value)
            )
            assert answer.status_code in (200, 204, 400), (callback["output"], answer.status_code)
            leaky.append((callback["output"], answer.text))
    assert leaky
    return leaky


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"\xff\xfe",
        b"{}" * 9,
        b"[" * 5000,
        b'{"output": 3}',
        b'{"output": "a.b"}',
    ],
)
def test_a_body_that_is_no_request(body: bytes, app: Flask) -> None:
    for kind in ("application/json", "text/plain", ""):
        answer = app.test_client().post("/_dash-update-component", data=body, content_type=kind)
        assert 400 <= answer.status_code < 500
        assert "Traceback" not in answer.text


def test_methods_sizes_and_paths_that_are_not_ours(app: Flask) -> None:
    asker = app.test_client()
    large = asker.post(
        "/_dash-update-component", data=b"x" * (2 << 20), content_type="application/json"
    )
    assert large.status_code in (400, 413)
    for method in ("put", "delete", "patch"):
        assert getattr(asker, method)("/").status_code in (404, 405)
    for path in (
        "/_reload-hash",
        "/_dash-component-suites/os/x.js",
        "/mcp",
        "/_mcp",
        "/_dash-component-suites/dash/../../app.py",
    ):
        assert asker.get(path).status_code < 500


# -- the real server -----------------------------------------------------------------


def test_a_port_that_is_taken_is_said_in_one_line(directory: Path) -> None:
    first = Serving(directory, Access(port=0))
    try:
        with urllib.request.urlopen(first.url, timeout=processes.HUNG_S) as answer:
            assert answer.status == 200 and "waitress" not in str(answer.headers).lower()
        with pytest.raises(UsageError, match="choose another --port"):
            Serving(directory, Access(port=first.port))
    finally:
        first.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(first.url, timeout=2)
