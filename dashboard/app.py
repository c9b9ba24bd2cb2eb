"""The app: pages, navigation, downloads, and the guard before all of it."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import dash
from dash import ClientsideFunction, Dash, Input, Output, dcc, html
from flask import Flask, request
from flask_compress import Compress
from werkzeug.exceptions import HTTPException

from probe.redact import redact_text

from .access import Access, guard, refusal
from .alerts.settings import Settings
from .components import aria, shell
from .context import CONFIG_KEY, AppContext, app_context
from .downloads import downloads
from .page import URL_ID, Page
from .pages import _alert_bar, pages
from .writes import writes

_INDEX = """<!DOCTYPE html>
<html lang="en">
<head>{%metas%}<title>{%title%}</title><link rel="icon" href="{%base%}assets/favicon.svg">{%css%}
<script src="{%base%}assets/theme.js"></script></head>
<body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body>
</html>"""
# What Dash asks for when it draws its first chart: needed soon, or on the next page.
_CHART_SCRIPTS = """
<link rel="{when}" as="script" href="{base}assets/plotly-cartesian.min.js">
<link rel="{when}" as="script" href="{suites}dash/dcc/async-graph.js">"""
_CSP = (
    "default-src 'self'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_SUITES = "/_dash-component-suites/"
MAX_BYTES = 1 << 20  # of a request


class _PagesApp(Dash):
    """Dash that has the scripts for charts fetched early, on pages that open with some."""

    def interpolate_index(self, metas: str = "", **parts: str) -> str:  # type: ignore[override]
        base = app_context().base
        soon = any(page.opens_with_charts for page, _ in _pages_at(_asked_path()))
        scripts = _CHART_SCRIPTS.format(
            when="preload" if soon else "prefetch", base=base, suites=base.rstrip("/") + _SUITES
        )
        return str(super().interpolate_index(metas=metas + scripts, **parts))


def create_app(
    directory: Path, access: Access, base: str = "/", settings: Settings | None = None
) -> Flask:
    """The WSGI application for the runs of one directory, below the path ``base``.

    Args:
        settings: the user's alerts.
    """
    base = f"/{base.strip('/')}/" if base.strip("/") else "/"
    server = Flask("dashboard", static_folder=None)
    server.config.update(
        {
            CONFIG_KEY: AppContext(directory, base, settings=settings or Settings()),
            "MAX_CONTENT_LENGTH": MAX_BYTES,
        }
    )
    server.config["COMPRESS_MIMETYPES"] = [
        "text/html",
        "text/css",
        "text/csv",
        "application/json",
        "application/javascript",
        "text/javascript",
        "image/svg+xml",
    ]
    Compress(server)
    guard(server, access, base)
    server.register_blueprint(downloads(), url_prefix=base.rstrip("/"))
    server.register_blueprint(writes(), url_prefix=base.rstrip("/"))
    app = _PagesApp(
        "dashboard",
        server=cast(Any, server),
        use_pages=True,
        pages_folder="",
        title="phasewatt",
        url_base_pathname=base,
        index_string=_INDEX.replace("{%base%}", base),
        assets_ignore=r"theme\.js|still\.js|plotly-cartesian\.min\.js",
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
    server.before_request(_prefetch)
    app.layout = _frame
    # Computed for each answer: Dash adds more scripts when it serves its first page.
    server.config["CSP"] = lambda: _CSP.format(hashes=" ".join(app.csp_hashes()))
    server.register_error_handler(Exception, _failed)
    return server


def _register(app: Dash) -> None:
    for name, page in pages().items():
        path = {"path_template": page.path} if "<" in page.path else {"path": page.path}
        dash.register_page(name, layout=_layout_of(page), title=page.title, **path)
        page.callbacks(app)
    dash.register_page("not_found_404", layout=_not_found)
    _alert_bar.callbacks(app)
    app.clientside_callback(
        ClientsideFunction("phasewatt", "theme"),
        Output("theme", "title"),
        Input("theme", "n_clicks"),
        prevent_initial_call=True,
    )


def _layout_of(page: Page) -> Any:
    """The layout as Dash calls it: with the parts of path and query as keyword arguments."""
    return lambda **address: page.layout(app_context(), address)


def _frame() -> Any:
    """The frame around every page: navigation and the page's container."""
    links = sorted((*page.navigation, page.path) for page in pages().values() if page.navigation)
    href = app_context().href
    return html.Div(
        [
            html.A("to the content", href="#main", className="skip"),
            html.Header(
                [
                    dcc.Link("phasewatt", href=href("/"), className="mark"),
                    html.Nav(
                        [dcc.Link(label, href=href(path)) for _, label, path in links],
                        **aria(label="Pages"),
                    ),
                    html.Button("theme", id="theme", type="button", className="link"),
                ],
                className="top",
            ),
            dcc.Location(id=URL_ID, refresh="callback-nav"),
            *_alert_bar.place(app_context()),
            dash.page_container,
        ]
    )


def _pages_at(path: str) -> list[tuple[Page, str]]:
    """The pages at a path below the base (one or none), with what stands for its variable."""
    at_path = []
    for page in pages().values():
        start, variable, _ = page.path.partition("<")
        if path.startswith(start) if variable else path == start:
            at_path.append((page, path.removeprefix(start)))
    return at_path


def _asked_path() -> str:
    """The path of the request, below the base."""
    return request.path.removeprefix(app_context().base.rstrip("/"))


def _prefetch() -> None:
    """Start to compute what an opened page will ask for, while the browser loads its scripts."""
    if request.method != "GET":
        return
    for page, place in _pages_at(_asked_path()):
        if page.prefetch is not None:
            work = partial(_try_to, page.prefetch, app_context(), place)
            threading.Thread(target=work, daemon=True).start()


def read_ahead(context: AppContext) -> None:
    """Compute what the first page will ask for."""
    for page, place in _pages_at("/"):
        if page.prefetch is not None:
            _try_to(page.prefetch, context, place)


def _try_to(prefetch: Callable[[AppContext, str], None], context: AppContext, place: str) -> None:
    with contextlib.suppress(Exception):  # the page's own request will show the error
        prefetch(context, place)


def _not_found(**_: Any) -> Any:
    return shell(
        html.P("There is nothing at this address."),
        dcc.Link("All runs", href=app_context().href("/")),
        title="Not found",
    )


def _failed(error: Exception) -> Any:
    """Answer an error without its traceback; one line goes to the server's log."""
    if isinstance(error, HTTPException):
        return refusal(error.code or 400, error.name)
    print(
        redact_text(f"dashboard: {request.method} {request.path}: {type(error).__name__}: {error}")[
            :500
        ],
        file=sys.stderr,
        flush=True,
    )
    return refusal(400, "bad request")
