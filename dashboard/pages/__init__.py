"""One module per page: ``layout`` makes it from its URL, ``register`` adds its callbacks."""
