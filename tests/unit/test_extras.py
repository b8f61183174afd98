"""What an extra brings says so where it is missing."""

import subprocess
import sys


def test_flower_that_is_not_installed_is_named_with_the_command():
    code = (
        "import sys; sys.modules['flwr'] = None\nfrom flcert.errors import InputError\ntry:\n    import flcert.flower\n"
    )
    code += "except InputError as error:\n    print(error)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "flcert.flower needs Flower: pip install 'flcert[flower]'"
