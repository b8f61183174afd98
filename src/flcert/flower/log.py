"""One line in Flower's log for an error of flcert's: the reason, without a traceback."""

import logging
import os

from flcert.errors import FlcertError, one_line


def without_traceback(record: logging.LogRecord) -> bool:
    """Put the message of an error of ours into the record, in place of its traceback; other records stay as they are.

    Flower logs whatever a ServerApp or ClientApp raises with a traceback. With FLCERT_TRACEBACK=1 ours keep theirs.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, FlcertError) and not os.environ.get("FLCERT_TRACEBACK"):
        record.msg, record.args = "%s: %s", (record.getMessage(), one_line(str(error)))
        record.exc_info = record.exc_text = None
    return True


def explain_errors() -> None:
    """Let Flower's log show errors of ours in one line; calling it again changes nothing."""
    logging.getLogger("flwr").addFilter(without_traceback)
