"""Scores of untrained networks: what a ranking by trainings has to beat, beside the parameter count.

All work on any module that takes images or other numbers, so on a child by itself as on a path of a supernet, whose
architecture is then an argument. A network is copied once and then scores as many architectures as are asked for; it
is never changed itself.
"""
