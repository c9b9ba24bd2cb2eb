"""On a run's page: tags, note, and whether lists leave it out; ``labels.js`` writes them."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, State, dcc, html

from probe.errors import ProbeError
from probe.store.catalogue.labels import MOST_NOTE_BYTES, read_labels
from probe.store.trainings import group_of

from ..components import aria, data, tag_link, trouble
from ..context import AppContext, app_context

_TAG, _NOTE = "label-tag", "label-note"  # ids
_PLACE, _WRITTEN = "run-labels", "labels-written"  # ``labels.js`` knows them, too


def place(context: AppContext, run_id: str) -> list[Any]:
    """Where they stand on the page of a run that there is."""
    return [dcc.Store(id=_WRITTEN), html.Div(labels(context, run_id), id=_PLACE)]


def callbacks(app: Dash, run: str) -> None:
    """They are shown again when they were written; ``run`` is the store of the run's id."""

    @app.callback(
        Output(_PLACE, "children"),
        Input(_WRITTEN, "data"),
        State(run, "data"),
        prevent_initial_call=True,
    )
    def written(_: Any, run_id: Any) -> Any:
        try:
            return labels(app_context(), str(run_id))
        except ProbeError as error:
            return trouble(error)


def labels(context: AppContext, run_id: str) -> Any:
    """Tags to click, and behind a fold what changes them. Raises UnknownRunError."""
    run = group_of(context.library.path(run_id))
    current = read_labels(run)
    tags: list[Any] = [tag_link(tag, context.href("/")) for tag in current.tags]
    tags += [html.Span("archived", className="badge")] if current.archived else []
    away = ("unarchive", "Bring back") if current.archived else ("archive", "Archive")
    taken = [
        html.Button(
            [tag, " ×"],
            type="button",
            className="tag",
            title=f"take the tag {tag} away",
            **data(do="untag", tag=tag),
        )
        for tag in current.tags
    ]
    form = html.Div(
        [
            html.Div(
                [
                    html.Label("Tag", htmlFor=_TAG),
                    html.Span(
                        [
                            dcc.Input(id=_TAG, type="text", maxLength=40, autoComplete="off"),
                            html.Button("Add", type="button", **data(do="tag")),
                        ],
                        className="together",
                    ),
                    html.Span(taken, className="tags"),
                ]
            ),
            html.Div(
                [
                    html.Label("Note", htmlFor=_NOTE),
                    dcc.Textarea(id=_NOTE, value=current.note, maxLength=MOST_NOTE_BYTES, rows=4),
                    html.Span(
                        [
                            html.Button("Save note", type="button", **data(do="note")),
                            html.Button(away[1], type="button", **data(do=away[0])),
                        ],
                        className="together",
                    ),
                ]
            ),
            html.P("", className="said", role="status"),
        ],
        className="labels-form",
        **data(note=current.note),
    )
    title = "Tags and note" if current.tags or current.note else "Add tags or a note"
    return html.Section(
        [
            html.Span(tags, className="tags") if tags else "",
            html.P(current.note, className="note") if current.note else "",
            html.Details([html.Summary(title), form]),
        ],
        className="labels",
        **data(run=run.name),
        **aria(label="Tags and note"),
    )
