"""`--partition 0=host:port,host:port`: which servers have which partition. Knows only names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from xtr_tf.errors import InputError

_ADDRESS = re.compile(r"(?P<target>[^/\s=,]+:\d+)(?:/(?P<model>[^/\s,]+))?")
_FORM = "A partition is given as --partition NUMBER=host:port[/model],host:port[/model]."


@dataclasses.dataclass(frozen=True)
class Address:
    """A model on a server.

    Attributes:
        target: `host:port` of its gRPC service.
        model: Name of the model in requests to this server.
    """

    target: str
    model: str = "default"

    def __str__(self) -> str:
        return self.target if self.model == "default" else f"{self.target}/{self.model}"


def read_addresses(given: Sequence[str]) -> tuple[tuple[Address, ...], ...]:
    """Reads the values of all `--partition` options.

    Args:
        given: Values such as `0=a:8500,b:8500`.

    Returns:
        The replicas of each partition, in the order of their numbers.

    Raises:
        InputError: A value cannot be read, a partition is missing or given twice, or an address is repeated.

    Example:
        >>> read_addresses(["0=a:8500,b:8500", "1=c:8500/other"])
        ((Address(target='a:8500', model='default'), ...
    """
    partitions: dict[int, tuple[Address, ...]] = {}
    owner: dict[Address, int] = {}
    for text in given:
        number, addresses = _read(text)
        if number in partitions:
            raise InputError(
                f"Each partition is given once, with all of its servers. Received: {number} twice."
            )
        partitions[number] = addresses
        for address in addresses:
            if address in owner:
                raise InputError(
                    "A server must not be given twice: it would answer for two. "
                    f"Received: {address} for partitions {owner[address]} and {number}."
                )
            owner[address] = number
    if not partitions:
        raise InputError(f"{_FORM} Received: no --partition.")
    missing = sorted(set(range(max(partitions) + 1)) - partitions.keys())
    if missing:
        raise InputError(
            f"Partitions are numbered from 0 without gaps. Received: no --partition {missing[0]}=…."
        )
    return tuple(partitions[number] for number in sorted(partitions))


def _read(text: str) -> tuple[int, tuple[Address, ...]]:
    number, _, listed = text.partition("=")
    found = [_ADDRESS.fullmatch(address.strip()) for address in listed.split(",")]
    if not (number.isascii() and number.isdigit()) or not all(found):
        raise InputError(f"{_FORM} Received: {text!r}.")
    return int(number), tuple(Address(m["target"], m["model"] or "default") for m in found if m)
