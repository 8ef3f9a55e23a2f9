"""Growth: enlarge a network where it helps most."""
