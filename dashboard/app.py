"""The app: pages, navigation, downloads, and the guard before all of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import dash
from dash import ClientsideFunction, Dash, Input, Output, dcc, html
from flask import Flask, request
from flask_compress import Compress
from werkzeug.exceptions import HTTPException

from . import ids, urls
from .access import Access, guard, refusal
from .components import aria, shell
from .context import Desk, desk
from .downloads import downloads
from .pages import gains, ranks, run, runs, sensors

# plotly's part for plane charts is a third of the whole and is read while Dash asks for the page;
# Dash takes the plotly that is there. What is preloaded is what it asks for last.
_INDEX = """<!DOCTYPE html>
<html lang="en">
<head>{%metas%}<title>{%title%}</title><link rel="icon" href="{%base%}assets/favicon.svg">{%css%}
<script src="{%base%}assets/theme.js"></script>
<script defer src="{%base%}assets/plotly-cartesian.min.js"></script>
<link rel="preload" as="script" href="{%suites%}dash/dcc/async-graph.js"></head>
<body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body>
</html>"""
_CSP = (
    "default-src 'self'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_SUITES = "/_dash-component-suites/"
_PLOTLY = "/assets/plotly-cartesian.min.js"
_MOST_BYTES = 1 << 20  # of a request


class _Compressed:
    """Scripts of Dash and plotly, each compressed once: that of the largest takes a while."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """As flask-compress asks."""
        return self._kept.get(key)

    def set(self, key: str, value: bytes) -> None:
        """Only what is the same every time it is asked for."""
        if _SUITES in key or key.endswith(_PLOTLY):
            self._kept[key] = value


def create_app(directory: Path, access: Access, base: str = "/") -> Flask:
    """The WSGI application for the runs of one directory, below the path ``base``."""
    base = f"/{base.strip('/')}/" if base.strip("/") else "/"
    server = Flask("dashboard", static_folder=None)
    server.config.update(DESK=Desk(directory, base), MAX_CONTENT_LENGTH=_MOST_BYTES)
    server.config["COMPRESS_MIMETYPES"] = [
        "text/html",
        "text/css",
        "text/csv",
        "application/json",
        "application/javascript",
        "text/javascript",
        "image/svg+xml",
    ]
    server.config["COMPRESS_ALGORITHM"] = ["gzip"]
    server.config["COMPRESS_LEVEL"] = 4  # most of what is gained, for a third of the work
    server.config["COMPRESS_CACHE_BACKEND"] = _Compressed
    server.config["COMPRESS_CACHE_KEY"] = lambda asked: asked.path
    Compress(server)
    guard(server, access, base)
    server.register_blueprint(downloads(), url_prefix=base.rstrip("/"))
    app = Dash(
        "dashboard",
        server=cast(Any, server),
        use_pages=True,
        pages_folder="",
        title="phasewatt",
        url_base_pathname=base,
        index_string=_index(base),
        assets_ignore=r"theme\.js|plotly-cartesian\.min\.js",
        update_title="",
        serve_locally=True,
        suppress_callback_exceptions=True,
        include_pages_meta=False,
        meta_tags=[
            {"name": "viewport", "content": "width=device-width, initial-scale=1"},
            {"name": "color-scheme", "content": "light dark"},
        ],
    )
    _register(app)
    server.before_request(_foresee)
    app.layout = _frame
    # Asked for each time: Dash adds scripts of its own when it is first asked for a page.
    server.config["CSP"] = lambda: _CSP.format(hashes=" ".join(app.csp_hashes()))
    server.register_error_handler(Exception, _failed)
    return server


def _index(base: str) -> str:
    page = _INDEX.replace("{%base%}", base)
    return page.replace("{%suites%}", base.rstrip("/") + _SUITES)


def prepare(server: Flask, access: Access) -> None:
    """Compress the largest script before anybody waits for it."""
    path = server.config["DESK"].href(_PLOTLY)
    token = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    server.test_client().get(path, headers={"Accept-Encoding": "gzip", **token}).close()


def _register(app: Dash) -> None:
    for module, path, extra in (
        (runs, urls.RUNS, {}),
        (gains, urls.GAINS, {}),
        (sensors, urls.SENSORS, {}),
        (run, None, {"path_template": f"{urls.RUN}<run_id>"}),
        (ranks, None, {"path_template": f"{urls.RANKS}<run_id>"}),
    ):
        title = getattr(module, "title", None) or f"{module.TITLE} · phasewatt"
        dash.register_page(module.__name__, path=path, layout=module.layout, title=title, **extra)
        module.register(app)
    dash.register_page("not_found_404", layout=_nowhere)
    app.clientside_callback(
        ClientsideFunction("phasewatt", "theme"),
        Output("theme", "title"),
        Input("theme", "n_clicks"),
        prevent_initial_call=True,
    )


def _frame() -> Any:
    """Around every page."""
    links = [(runs.TITLE, urls.RUNS), (gains.TITLE, urls.GAINS), (sensors.TITLE, urls.SENSORS)]
    href = desk().href
    return html.Div(
        [
            html.A("to the content", href="#main", className="skip"),
            html.Header(
                [
                    dcc.Link("phasewatt", href=href("/"), className="mark"),
                    html.Nav(
                        [dcc.Link(label, href=href(path)) for label, path in links],
                        **aria(label="Pages"),
                    ),
                    html.Button("light or dark", id="theme", type="button", className="link"),
                ],
                className="top",
            ),
            dcc.Location(id=ids.URL, refresh="callback-nav"),
            dash.page_container,
        ]
    )


def _foresee() -> None:
    """Somebody opens a run: the scripts come first, but what they will ask for is known."""
    path = request.path.removeprefix(desk().base.rstrip("/"))
    if request.method == "GET" and path.startswith(urls.RUN):
        desk().warm(path.removeprefix(urls.RUN))


def _nowhere(**_: Any) -> Any:
    return shell(
        html.P("There is nothing at this address."),
        dcc.Link("All runs", href=desk().href("/")),
        title="Not found",
    )


def _failed(error: Exception) -> Any:
    """No traceback leaves this machine; one line of it stays in the server's log."""
    if isinstance(error, HTTPException):
        return refusal(error.code or 400, error.name)
    print(
        f"dashboard: {request.method} {request.path}: {type(error).__name__}: {error}"[:500],
        file=sys.stderr,
        flush=True,
    )
    return refusal(400, "this request makes no sense here")
