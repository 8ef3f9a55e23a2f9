"""A user's own module as a space."""
