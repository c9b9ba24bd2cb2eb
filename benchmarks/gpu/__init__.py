"""What a machine with a card should be asked: `make gpu`. Reads only: no setting is touched."""
