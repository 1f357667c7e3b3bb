"""The one exception for bad input; the command line prints it as a sentence instead of a traceback."""


class InputError(ValueError):
    """What the caller gave cannot be used.

    The message is one sentence: what was wrong, what to do, and `Received: ...` last.
    """
