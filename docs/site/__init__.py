"""The site: ``make docs`` builds it from the pages of the repository and from the code.

:mod:`navigation` says which page stands where, :mod:`source` writes what Sphinx reads, and one
module each makes the pages that follow from code: commands, schema, metrics, Python.
"""
