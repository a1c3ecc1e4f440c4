"""What several races say together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t, two-sided 95 %, for one degree of freedom and more."""


def interval(ratios: Sequence[float]) -> list[float]:
    """Geometric mean, and the two ends of its 95 % interval (Student's t on the logarithms); one ratio has none."""
    logs = [math.log(ratio) for ratio in ratios]
    middle = statistics.fmean(logs)
    around = T[min(len(logs), len(T) + 1) - 2] * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return [math.exp(middle), math.exp(middle - around), math.exp(middle + around)]
