"""Does a technique pay here: a card for each, from paired trainings with and without it.

:mod:`design` says which stacks are trained, :mod:`trials` trains them with the runner of an
ablation, :mod:`analysis` reads the runs and compares them by the code of ``probe compare``,
:mod:`verdicts` makes a word of what was measured, :mod:`page` writes the cards.
"""

from __future__ import annotations
