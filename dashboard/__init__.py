"""The dashboard: runs as they go on, what burns the energy, what paid.

    store reader, live page -> data -> views (pure: rows -> chart) -> pages -> browser

``data`` is the only part that opens a run; ``access`` decides who may look; a page's state is its
URL (``urls``). Reached by ``probe dashboard`` and ``probe.watch(dashboard=True)``.
"""
