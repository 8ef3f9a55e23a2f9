"""Compacting, picking and growing."""
