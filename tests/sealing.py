"""Change a run directory as a forger would, whose digests fit, or as damage would, whose digests do not."""

import json

from flcert.runs.seal import sealed


def seal(run):
    """Make the digests of a run fit its files."""
    file = run / "manifest.json"
    file.write_text(json.dumps(sealed(run, json.loads(file.read_text()))))


def change_manifest(run, change):
    """Change a manifest in place, with digests that fit."""
    values = json.loads((run / "manifest.json").read_text())
    change(values)
    (run / "manifest.json").write_text(json.dumps(values))
    seal(run)
