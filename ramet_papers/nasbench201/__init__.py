"""Searches judged by NAS-Bench-201's table: what shared weights, guards, strategies and training-free scores find."""

from ramet_papers.nasbench201.judged import judged_searches

__all__ = ["judged_searches"]
