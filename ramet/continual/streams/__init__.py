"""Tasks that arrive one after the other, and ways to make them from data."""
