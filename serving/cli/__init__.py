"""The commands `xtr-tf serve` and `xtr-tf query`: a server with TensorFlow Serving's API, and its client.

Importing this package must import neither gRPC nor TensorFlow. A command imports what it needs when it runs.
"""

from __future__ import annotations

import typer

from serving.cli import query, serve


def register(app: typer.Typer) -> None:
    """Adds the commands of this package to `xtr-tf`.

    Args:
        app: The application to add them to.
    """
    app.command("serve")(serve.serve)
    app.command("query")(query.query)
