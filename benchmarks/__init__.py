"""Benchmarks of ramet: each file measures one demand, as a ratio within one run where that is possible."""
