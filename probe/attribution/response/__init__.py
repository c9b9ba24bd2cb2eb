"""How a sensor shows power: the family of responses, its search, and the test of its fit."""
