"""Elastic spaces: the sizes that are slices of one trained network."""
