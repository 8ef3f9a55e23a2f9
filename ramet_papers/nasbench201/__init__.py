"""Searches judged by NAS-Bench-201's table: what shared weights, guards, strategies and training-free scores find."""

from ramet_papers.nasbench201.judged import judged_searches

__all__ = ["judged_searches"]

TARGETS = {
    "nasbench201": ("searches, guards and training-free scores, judged by NAS-Bench-201's table", judged_searches),
}
"""What can be reproduced: its name, what it shows, and the function."""
