"""From recorded edges to spans of phases, their totals, and what ranks waited for."""
