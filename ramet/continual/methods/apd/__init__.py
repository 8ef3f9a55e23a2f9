"""Additive parameter decomposition."""
