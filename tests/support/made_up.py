"""Made-up figures for the judges of claims: values of a few seeds whose interval is known beforehand."""

import numpy as np

# Student's interval of three values (mean - s, mean, mean + s) is mean -+ 4.3027 s / sqrt(3) = mean -+ 2.4842 s: it
# leaves 0 out if s is below 0.40255 of the mean. A bootstrap over three seeds would still leave it out at a whole mean.
SURE, UNSURE = 0.40, 0.405


def three(mean, spread=0.0):
    """Three seeds of a mean; ``spread`` as a share of it, with ``SURE`` and ``UNSURE`` at either side of certainty."""
    return mean * (1 + spread * np.array([-1.0, 0.0, 1.0]))


# A bootstrap resamples so many seeds that the interval is nearly mean -+ 1.96 s / sqrt(n) for n values mean -+ s: of
# twelve it leaves 0 out if s is below about 1.77 means.
SURE_OF_MANY, UNSURE_OF_MANY = 1.5, 2.0


def many(mean, spread=0.0, num=12):
    """An even number of seeds of a mean, half below it and half above; ``spread`` as a share of it."""
    return mean * (1 + spread * np.tile([-1.0, 1.0], num // 2))


def beside(values, base=0.0):
    """Pairs of a value and a base that it is above by the given: [seeds, 2]."""
    values = np.asarray(values)
    return np.stack([np.full_like(values, base) + values, np.full_like(values, base)], axis=1)


SAID = {"command": "ramet reproduce something", "setting": "A small setting."}
"""What every judge is told besides its figures."""
