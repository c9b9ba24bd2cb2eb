"""From samples and spans to joules per phase. Pure functions on arrays; no I/O."""
