"""A Prometheus histogram out of a page of metrics."""
import re


class Histogram:
    """Value. Sums over all labels. A page without it reads as one that counted nothing."""

    def __init__(self, page, name):
        self.buckets = {}
        for labels, count in re.findall(rf"^{name}_bucket\{{(.*)\}} (\S+)$", page, re.M):
            bound = float(re.search(r'le="([^"]+)"', labels)[1])
            self.buckets[bound] = self.buckets.get(bound, 0) + float(count)

    def __sub__(self, earlier):
        result = Histogram("", "")
        result.buckets = {bound: count - earlier.buckets.get(bound, 0)
                          for bound, count in self.buckets.items()}
        return result

    @property
    def count(self):
        return max(self.buckets.values(), default=0)

    def quantile(self, share):
        """Interpolated in its bucket, as histogram_quantile does; of the last one its lower end."""
        wanted, below, lower = share * self.count, 0, 0.0
        for bound, count in sorted(self.buckets.items()):
            if count >= wanted and count > below:
                if bound == float("inf"):
                    return lower
                return lower + (bound - lower) * (wanted - below) / (count - below)
            below, lower = count, bound
        return float("nan")
