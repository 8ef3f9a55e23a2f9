"""Task after task in one network."""
