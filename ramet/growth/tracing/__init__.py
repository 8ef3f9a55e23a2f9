"""What can widen together in a network, read from one run of it, and checked on a copy."""
