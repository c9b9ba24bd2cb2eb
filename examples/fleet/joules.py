"""Joules per cluster and run from Parquet files in a folder or a bucket, with pyarrow alone.

    probe export RUN --to parquet -o BUCKET/cluster=here/run=RUN/samples.parquet
    python examples/fleet/joules.py BUCKET          # a folder, s3://bucket/path, gs://…

The files are what `probe export --to parquet` wrote, copied with any tool; the folders
around them (cluster=, date=, run=) become columns.
"""

from __future__ import annotations

import argparse
import sys

import pyarrow.compute as pc
import pyarrow.dataset as ds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bucket", help="a folder or the URI of a bucket")
    options = parser.parse_args()
    try:
        samples = ds.dataset(options.bucket, format="parquet", partitioning="hive")
    except (OSError, ValueError) as error:
        print(f"cannot read {options.bucket}: {error}", file=sys.stderr)
        return 1
    names = [name for name in ("cluster", "date", "run") if name in samples.schema.names]
    counters = samples.to_table(
        columns=[*names, "device", "source", "value"],
        filter=(pc.field("quantity") == "energy") & (pc.field("provenance") == "measured"),
    )
    # A counter's joules are what it has grown.
    grown = counters.group_by([*names, "device", "source"]).aggregate(
        [("value", "min"), ("value", "max")]
    )
    joules = pc.subtract(grown["value_max"], grown["value_min"])
    rows = grown.append_column("joules", joules).to_pylist()
    for row in sorted(rows, key=lambda row: [str(row[name]) for name in [*names, "device"]]):
        where = "  ".join(str(row[name]) for name in names)
        print(f"{where}  {row['device']}  {row['joules']:.1f} J")
    return 0


if __name__ == "__main__":
    sys.exit(main())
