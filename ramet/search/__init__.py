"""Find an architecture on shared weights that stay true."""
