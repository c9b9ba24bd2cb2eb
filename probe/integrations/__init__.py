"""One line in the framework that people already train with: one entry a file.

An entry imports its framework, so importing an entry is what asks for it; ``import probe`` imports
none. An entry never raises into its framework: what goes wrong is one line, and training goes on.
"""
