"""One crash-safe directory per run: one writer per file, many readers.

::

    runs/<id>/
      run.json                        what the run is and how it ended; replaced atomically
      labels.json                     tags, a note, archived: written by people, replaced atomically
      members/<role>-<rank>-<pid>.json   one per process of the job, written by that process
      node-<host>/
        lease-<epoch>                 fencing: the recorder with the highest number writes
        recorder.log
        sources.json  gaps.jsonl
        hot/samples-<epoch>-<n>.arrows    append-only Arrow IPC, read up to a tear
        cold/samples-<epoch>-<n>.parquet  sealed: temporary name, then rename
        rollup/{1s,10s,60s}.parquet
      rank-<rank>/
        names-<ring>.json
        hot/edges-<ring>-<epoch>-<n>.arrows     cold/…
        hot/ledger-<ring>-<epoch>-<n>.arrows    cold/…     step × phase, never discarded
"""
