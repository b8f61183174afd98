"""Shape of an input and number of labels of each data set with its default options, known without its files."""

SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "digits": ((64,), 10),
    "mnist": ((28, 28), 10),
    "fashion-mnist": ((28, 28), 10),
    "cifar10": ((3, 32, 32), 10),
    "har": ((561,), 6),
    "chitchat": ((10,), 50_000),
    "reddit": ((10,), 50_000),
}
