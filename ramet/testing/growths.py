"""A conformance suite for ways to grow, for ours and for outside authors'."""
