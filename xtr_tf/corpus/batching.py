"""Which passages are encoded together: batches of a few static shapes and little padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_SHORTEST = 32


def bucket_lengths(longest: int) -> list[int]:
    """The lengths that passages are padded to, ascending: `longest`, its half, and so on to about 32."""
    lengths = [longest]
    while lengths[0] // 2 >= _SHORTEST:
        lengths.insert(0, lengths[0] // 2)
    return lengths


def batches(token_counts: Sequence[int], longest: int, batch_tokens: int) -> Iterator[tuple[int, np.ndarray]]:
    """Puts passages into batches.

    Every batch has the length of a bucket and a power of two of rows, none of them padding: the
    passages left over at the end of a bucket go into smaller powers. So there are few shapes to
    compile for, and which passages share a batch depends on nothing but the arguments.

    Args:
        token_counts: Tokens of each passage, at most `longest`.
        longest: The longest bucket.
        batch_tokens: The most tokens of a batch, padding included; a batch has one row at least.

    Yields:
        The length to pad to, and `[rows]` indices of passages in ascending order.
    """
    lengths = bucket_lengths(longest)
    owners = np.searchsorted(lengths, token_counts)
    for bucket, length in enumerate(lengths):
        waiting = np.flatnonzero(owners == bucket)
        most = 1 << (max(batch_tokens // length, 1).bit_length() - 1)
        while len(waiting):
            rows = min(most, 1 << (len(waiting).bit_length() - 1))
            yield length, waiting[:rows]
            waiting = waiting[rows:]
