"""Comparing models by their bytes."""


def model_bytes(ensemble):
    """For each group the bytes of every array of its model, None where it has none."""
    keys = ensemble.model_keys()
    return [
        {name: array.tobytes() for name, array in sorted(ensemble.load(keys[group]).items())} if group in keys else None
        for group in range(len(ensemble.grouping))
    ]


def group_of(ensemble, client):
    """The first group that holds a client."""
    return next(group for group, members in enumerate(ensemble.grouping.members) if client in members)
