"""How a network is enlarged: the arithmetic of widening, new layers, and writing both into its modules."""
