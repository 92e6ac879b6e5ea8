"""The confidence interval of a rate."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple


class Interval(NamedTuple):
    """A confidence interval of a probability."""

    low: float
    high: float


def wilson(hits: int, trials: int, confidence: float = 0.95) -> Interval:
    """The score interval for a probability, from ``hits`` in ``trials`` independent trials.

    Unlike the Wald interval it keeps its coverage for no hits, and for few trials.

    Source: Wilson, E. B. (1927), "Probable inference, the law of succession, and statistical inference",
    Journal of the American Statistical Association 22:209-212; recommended by Brown, Cai and DasGupta (2001),
    "Interval estimation for a binomial proportion", Statistical Science 16:101-133.

    Raises:
        ValueError: hits, trials or confidence are out of range.
    """
    if not 0 <= hits <= trials or not 0 < confidence < 1:
        raise ValueError(f"no such sample: {hits} of {trials} at {confidence}")
    if not trials:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = hits / trials
    scale = 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if hits == trials else min(1.0, middle + half))
