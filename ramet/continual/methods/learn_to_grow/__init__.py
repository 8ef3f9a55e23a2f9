"""Learn to Grow: reuse, adapt or make anew, layer by layer."""
