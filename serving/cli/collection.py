"""The options of `xtr-tf serve --collection`: partitions on other servers, served as one model."""

from __future__ import annotations

from functools import partial as _partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.query import client_credentials, read_token
from xtr_tf.errors import InputError

if TYPE_CHECKING:
    from serving.server.collection.manager import CollectionOptions

_option = _partial(typer.Option, rich_help_panel="Collection")

File = Annotated[
    Path | None, _option(help="A collection.json: serve its partitions on other servers as one model.")
]
Partition = Annotated[
    list[str] | None,
    _option(help="Servers of a partition, 0=host:port,host:port[/model]; repeat for each partition."),
]
Partial = Annotated[
    str, _option(help="If a partition is missing: refuse, or allow answers that say what is missing.")
]
TimeoutMs = Annotated[int, _option(help="Longest time for a request, even if its deadline is later.")]
TlsCa = Annotated[Path | None, _option(help="Encrypt to partitions, trusting these authorities (PEM).")]
TokenFile = Annotated[Path | None, _option(help="File with a bearer token for partitions.")]


def collection_options(
    file: Path | None,
    partitions: list[str],
    name: str,
    partial: str,
    timeout_seconds: float,
    authorities: Path | None,
    token_file: Path | None,
    models: Path | None,
) -> CollectionOptions | None:
    """Checks the options of a collection.

    Args:
        file: The `collection.json`, or None if no collection is served.
        partitions: Addresses of the partitions, as given on the command line.
        name: Name of the model.
        partial: `refuse` or `allow` answers without all partitions.
        timeout_seconds: Longest time for a request to the partitions.
        authorities: PEM file of the authorities to trust, or None for plain text.
        token_file: File with a bearer token for the partitions.
        models: The models to serve, if any; only one of `models` and `file` may be given.

    Returns:
        The options, or None if no collection is served.

    Raises:
        InputError: An option is invalid, or partitions lack addresses.
    """
    from serving.server.collection.addresses import read_addresses
    from serving.server.collection.manager import CollectionOptions
    from serving.server.collection.request import PARTIAL
    from xtr_tf.retriever.collection_file import read_collection

    if file is None:
        if partitions:
            raise InputError(f"--partition needs --collection. Received: --partition {partitions[0]}.")
        return None
    if models is not None:
        raise InputError(f"Serve a collection or models, not both. Received: {file} and {models}.")
    if partial not in PARTIAL:
        raise InputError(f"--partial must be one of {', '.join(PARTIAL)}. Received: {partial!r}.")
    if timeout_seconds <= 0:
        raise InputError(f"--partition-timeout-ms must be positive. Received: {timeout_seconds * 1000:g}.")
    addresses = read_addresses(partitions)
    expected = len(read_collection(file).partitions)
    if len(addresses) != expected:
        raise InputError(
            f"The collection has {expected} partitions; give the servers of each with --partition. "
            f"Received: those of {len(addresses)}."
        )
    return CollectionOptions(
        *(file.resolve(), addresses, name, partial, timeout_seconds),
        client_credentials(False, authorities, None, None),
        read_token(token_file) if token_file else None,
    )
