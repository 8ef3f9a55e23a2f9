"""Spaces whose cells read the two cells before them: DARTS' and the micro space of ENAS, and their final networks."""
