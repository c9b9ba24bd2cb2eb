"""The only part of the dashboard that opens runs. What it gives is plain (``chart_data``)."""
