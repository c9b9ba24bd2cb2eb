"""pyarrow is loaded without pandas, and what needs pandas still gets it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from probe.small_process import stay_small

{first}
import numpy as np
import pyarrow as pa

column = pa.chunked_array([pa.array(np.arange(4.0))])
assert column.to_numpy().sum() == 6.0
print("pandas" in sys.modules)
frame = pa.table({{"a": column}}).to_pandas()
print(frame["a"].sum(), pa.array(frame["a"]).to_pylist())
"""


def _printed(first: str) -> list[str]:
    script = SCRIPT.format(first=first)
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return out.stdout.splitlines()


def test_pandas_is_loaded_only_where_it_is_needed() -> None:
    numbers = "6.0 [0.0, 1.0, 2.0, 3.0]"
    assert _printed("") == ["True", numbers]  # what pyarrow does by itself
    assert _printed("stay_small()") == ["False", numbers]


def test_only_the_thread_that_stays_small_is_refused_pandas() -> None:
    """The recorder's main thread does; CodeCarbon may read its tables in another one."""
    script = """
import sys, threading
from probe.small_process import RefusePandas
sys.meta_path.insert(0, RefusePandas(threading.get_ident()))
try:
    import pandas
except ImportError:
    print("refused here")
def read():
    import pandas
    print(pandas.DataFrame({"a": [1.0]})["a"].sum(), "elsewhere")
thread = threading.Thread(target=read)
thread.start()
thread.join()
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines() == ["refused here", "1.0 elsewhere"], out.stderr


def test_a_process_that_has_pandas_keeps_it() -> None:
    assert _printed("import pandas; stay_small()")[0] == "True"
