"""The runs of a directory as a list: one row for each, what its readers added, search, totals.

::

    rows.py       a row, from run.json where that says how the run ended, else from the whole run
    labels.py     tags, a note and "archived": labels.json of the run's directory, its only home
    listing.py    the rows of a directory; what has not changed is not read again
    kept.py       rows from one process to the next: a file in the reader's own cache
    search.py     which rows a text means
    totals.py     what rows come to, in all and by day, name, tag or host

Whatever is in the cache follows from the runs: anybody may delete it.
"""

from .listing import Catalogue
from .rows import Hungriest, RunSummary, lacks_energy, summary, with_live

__all__ = ["Catalogue", "Hungriest", "RunSummary", "lacks_energy", "summary", "with_live"]
