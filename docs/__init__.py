"""The documentation: pages to read here, and :mod:`docs.site`, which makes a site of them."""
