"""What ci/compare-peers has measured."""

import statistics


class Table:
    """Medians by name and column, in the order in which they were first seen."""

    def __init__(self):
        self.units = {}
        self.columns = []
        self.values = {}

    def add(self, column, name, unit, value):
        self.units.setdefault(name, unit)
        if column not in self.columns:
            self.columns.append(column)
        self.values.setdefault((name, column), []).append(value)

    def median(self, name, column):
        values = self.values.get((name, column))
        return statistics.median(values) if values else None

    def best(self, name, column):
        values = self.values.get((name, column))
        return better(self.units[name], values) if values else None


def less_is_better(unit):
    return unit in ("ns", "us")


def better(unit, values):
    return min(values) if less_is_better(unit) else max(values)


def bound(unit, target):
    """The target in words."""
    return f"{'<=' if less_is_better(unit) else '>='} {target:.4g}"


def reached(unit, value, target):
    return value <= target if less_is_better(unit) else value >= target
