"""A search in stages, each narrowing the field by what it costs and what it tells."""
