"""An aggregator that fails in groups of two."""


def rule():
    def aggregate(given):
        if len(given.sizes) == 2:
            raise RuntimeError("two is too few")
        return given.updates.mean(0)

    return aggregate
