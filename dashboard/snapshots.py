"""``/snapshot/…``: a page as one file that can be sent to somebody."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flask import Blueprint, Response, request

from probe.errors import ProbeError, UsageError

from .access import refusal
from .context import AppContext, app_context
from .page import MakeStill, Query
from .pages import pages
from .still import document
from .urls import MEMBER, SNAPSHOT

_OPEN = "origin"  # of the query ``with``: command, paths, host, user and configuration, too


def snapshots() -> Blueprint:
    """Routes below the base path."""
    routes = Blueprint("snapshots", __name__)
    for page in pages().values():
        for rule, make in page.stills.items():
            _add(routes, SNAPSHOT + rule, make)
    return routes


def _add(routes: Blueprint, rule: str, make: MakeStill) -> None:
    def answer(**parts: str) -> Response:
        asked: Query = {key: request.args.getlist(key) for key in request.args}
        try:
            still = make(app_context(), parts, asked, _OPEN in asked.get("with", ()))
            content = document(still)
        except (ProbeError, OSError) as error:
            return refusal(404, str(error))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            return refusal(404, f"there is no snapshot of this: {type(error).__name__}")
        file = re.sub(r"[^A-Za-z0-9._-]+", "-", still.name)[:120]
        return Response(
            content,
            mimetype="text/html",
            headers={"Content-Disposition": f'attachment; filename="{file}.html"'},
        )

    routes.add_url_rule(rule, re.sub(r"\W+", "-", rule).strip("-"), answer)


def snapshot_of(context: AppContext, references: list[str], *, is_open: bool) -> bytes:
    """The file of a run, or of a comparison of the first of several with each other.

    Args:
        references: the id of a run in the context's directory, or two or more references of
            ``probe compare``.
        is_open: with command, paths, host, user and configuration.

    Raises:
        ProbeError: a run is not there or cannot be read.
    """
    stills = {rule: make for page in pages().values() for rule, make in page.stills.items()}
    parts: Mapping[str, str] = {}
    if len(references) == 1:
        rule, asked = "run/<run_id>", {}
        parts = {"run_id": references[0].replace("/", MEMBER)}
    else:
        rule, asked = "gains", {"base": references[:1], "other": references[1:]}
    try:
        return document(stills[rule](context, parts, asked, is_open))
    except ValueError as error:
        raise UsageError(f"no snapshot of {', '.join(references)}: {error}") from None
