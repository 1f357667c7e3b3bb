"""`--runner`: where the shards of a job are processed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from xtr_tf.vectors.runners import Runner

LOCAL = "local"

RunnerName = Annotated[
    str,
    typer.Option(
        help="`local` (this process), or a Beam runner such as `DirectRunner` or `DataflowRunner`, "
        "whose own options follow after `--`."
    ),
]


def chosen_runner(name: str, flags: list[str]) -> Runner:
    """Returns the runner with a name.

    Args:
        name: The value of `--runner`.
        flags: What follows after `--`: pipeline options for Beam.
    """
    from xtr_tf.errors import InputError
    from xtr_tf.vectors.runners import run_locally

    if name == LOCAL:
        if flags:
            raise InputError(
                f"The local runner has no pipeline options; name a Beam runner. Received: {flags}."
            )
        return run_locally
    try:
        from xtr_tf.vectors.beam import BeamRunner
    except ImportError as error:
        raise InputError(
            f"Runners other than `local` need Apache Beam; install xtr-tf[pipeline]. Received: {name!r}."
        ) from error
    return BeamRunner([f"--runner={name}", *flags])
