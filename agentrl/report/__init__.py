"""Seeing a run: its directory, its logs, the console, the summary and the learning curve. Never imports torch."""
