"""Guards: updates that do not disturb earlier models."""
