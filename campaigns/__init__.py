"""Attempts to break ramet: kills, failing disks, damaged files, large inputs, lost machines; see docs/reliability.md.

`python -m campaigns` makes them all and prints one table of what was tried, how often, and what was lost.
"""
