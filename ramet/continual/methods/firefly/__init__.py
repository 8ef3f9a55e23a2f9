"""Firefly for tasks that arrive one after the other."""
