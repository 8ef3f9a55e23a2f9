"""Other libraries beside ours, in one run: ``make bench-peers`` installs them in an environment of their own."""
