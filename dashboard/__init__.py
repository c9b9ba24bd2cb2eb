"""The dashboard: live and stored runs, energy by phase, gains between runs.

    store reader, live page -> data -> figures (pure: rows -> chart) -> pages -> browser

``data`` is the only part that opens a run; ``access`` decides who may look; a page is one file in
``pages``, and its state is its URL. Reached by ``probe dashboard`` and
``probe.watch(dashboard=True)``.
"""
