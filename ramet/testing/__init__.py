"""Conformance suites: what every implementation of a seam must pass, for us and for outside authors."""
