"""Learn to bind and grow, and random growth, which it is compared with."""
