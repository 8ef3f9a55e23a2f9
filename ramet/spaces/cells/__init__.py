"""Spaces whose supernets are chains of cells with one input: ``Cells64`` and ``NasBench201``."""
