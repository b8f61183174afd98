"""What pytest leaves alone where an extra is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("flwr") else ["src/flcert/flower/*", "tests/flower/*"]
