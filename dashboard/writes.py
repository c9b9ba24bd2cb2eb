"""The only requests that write: tags, the note and "archived" of a run.

``POST /labels/<run>`` with JSON, from a page of this server, with its token where there is one
(:mod:`access` looks at every request first). Nothing is ever deleted; runs of other users, and
those that are read-only, are refused by :func:`probe.store.catalogue.labels.change_labels`.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, jsonify, request

from probe.errors import ProbeError, StoreError, UnknownRunError, UsageError
from probe.store.catalogue.labels import change_labels
from probe.store.trainings import group_of

from .access import is_own_page, refusal
from .context import app_context
from .urls import LABELS

_MOST_BYTES = 64 << 10  # of a request: a note of 10 kB as JSON is six times as long at most
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_KINDS = {"add": list, "remove": list, "note": str, "note_before": str, "archived": bool}


def writes() -> Blueprint:
    """The route below the base path."""
    routes = Blueprint("writes", __name__)
    routes.add_url_rule(f"{LABELS}<run_id>", "labels", _change, methods=_METHODS)
    return routes


def _change(run_id: str) -> Response:
    if request.method != "POST":  # Dash would answer with its page
        return refusal(405, "labels are written with POST")
    if not is_own_page():
        return refusal(403, "another site asked for this")
    if request.mimetype != "application/json" or (request.content_length or 0) > _MOST_BYTES:
        return refusal(400, "send JSON, a note of 10 kB at most")
    try:
        asked = _asked(request.get_json(silent=True))
        library = app_context().library
        labels = change_labels(group_of(library.path(run_id)), **asked)
    except UnknownRunError as error:
        return refusal(404, str(error))
    except UsageError as error:
        return refusal(400, str(error))
    except StoreError as error:
        return refusal(403, str(error))
    except ProbeError as error:
        return refusal(400, str(error))
    library.changed()
    return jsonify(tags=list(labels.tags), note=labels.note, archived=labels.archived)


def _asked(value: object) -> dict[str, Any]:
    """The arguments of :func:`change_labels`. Raises UsageError."""
    if not isinstance(value, dict) or not value or not value.keys() <= _KINDS.keys():
        raise UsageError(f"send an object with some of {', '.join(_KINDS)}")
    for key, item in value.items():
        words = item if isinstance(item, list) else []
        if not isinstance(item, _KINDS[key]) or not all(isinstance(word, str) for word in words):
            raise UsageError(f"{key!r} is not what it should be")
    return value
