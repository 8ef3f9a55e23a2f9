"""How far a supernet's ranking can be trusted: metrics, the truth, and the diagnosis."""
