"""What a process that was killed while it wrote files leaves behind."""

import subprocess
import sys

WRITE = """
import sys
from pathlib import Path
from flcert.core.leftovers import temporary_beside
for path in sys.argv[1:]:
    temporary_beside(Path(path)).write_bytes(b"half")
"""


def leave_half(*paths):
    """Write half of these files in a process that ends."""
    subprocess.run([sys.executable, "-c", WRITE, *map(str, paths)], check=True)
