"""The certificates that a finished run can have."""

from flcert.certify import Guarantee
from flcert.core.settings import Choice
from flcert.runs.directory import RunDirectory

OWN = "own"  # the certificate that the groups of a run call for


def guarantee_of_run(directory: RunDirectory, certificate: str = OWN) -> Guarantee:
    """The guarantee of a run: its own, or that of another certificate of the same models.

    Args:
        directory: the run directory.
        certificate: "own", the name of a kind, or an import path.
    """
    own, config = directory.guarantee(), directory.config()
    if certificate in (OWN, own.kind):
        return own
    asked = (choice for choice in config.certificate.also if choice.name == certificate)
    choice = next(asked, Choice(name=certificate))  # with the options in the configuration, if it has any
    return config.guarantee(choice, directory.grouping(), directory.num_failed())
