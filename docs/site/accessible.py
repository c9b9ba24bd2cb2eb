"""What the theme's pages lack for readers who use a keyboard or a screen reader (axe names it)."""

from __future__ import annotations

_ADDED = {
    # Two landmarks of one kind need names.
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    # A heading by role needs its level.
    'class="caption" role="heading"': 'class="caption" role="heading" aria-level="2"',
    # What scrolls must be reached by the keyboard.
    "<pre><span></span>": '<pre tabindex="0"><span></span>',
    '<div class="table-wrapper ': '<div tabindex="0" class="table-wrapper ',
    # The page of results has no heading.
    '<div id="search-results">': '<h1>Search</h1>\n<div id="search-results">',
}


def make_accessible(html: str) -> str:
    """A page with what is missing; a page that has it already does not change."""
    for old, new in _ADDED.items():
        html = html.replace(old, new)
    return html
