"""A teacher's token vectors on disk, and their alignment with an encoder's own tokens as targets.

A store is a folder of four files, which any environment with NumPy can write:

- `texts.jsonl`: one `{"text": …, "language": …}` per text. The language is optional.
- `offsets.npy`: `[texts + 1]` int64. The teacher's tokens of text `t` are `offsets[t]` to `offsets[t + 1]`.
- `spans.npy`: `[tokens, 2]` int32, the first character of each token in its text and the one after its last.
- `vectors.npy`: `[tokens, dim]` floats or int8. Only directions matter: int8 may be scaled row by row.

The teacher and the encoder split a text into different tokens. The target of a token is the mean direction of
the teacher's tokens that share characters with it, weighted by the number of shared characters. The text can
differ from the one that the teacher read: a translation can have the vectors of the words it is aligned with.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xtr_tf.collections.document import LANGUAGE_FIELDS, UNKNOWN_LANGUAGE, text_field
from xtr_tf.collections.lines import LineFile, parse_object
from xtr_tf.errors import InputError
from xtr_tf.training.data.sampling import Sampler

_TEXTS, _OFFSETS, _SPANS, _VECTORS = "texts.jsonl", "offsets.npy", "spans.npy", "vectors.npy"
# Batches whose texts are sorted together.
_WINDOW = 32


class TeacherTokens(NamedTuple):
    """A teacher's tokens of a text.

    Attributes:
        spans: `[tokens, 2]` int32, in characters.
        vectors: `[tokens, dim]`, of any length.

    Example:
        "deep lake" as two words:

        >>> TeacherTokens(spans=np.int32([[0, 4], [5, 9]]), vectors=np.float32([[3, 4], [1, 0]]))
        TeacherTokens(...)
    """

    spans: np.ndarray
    vectors: np.ndarray


class TeacherVectors:
    """One store, memory-mapped.

    Args:
        directory: Folder of the store.

    Raises:
        InputError: A file is missing, or the files do not match.

    Attributes:
        dim: Width of a vector.
        languages: `[texts]` strings.

    Example:
        >>> import tempfile
        >>> temporary = tempfile.TemporaryDirectory()
        >>> folder = Path(temporary.name)
        >>> _ = (folder / "texts.jsonl").write_text('{"text": "deep lake", "language": "en"}')
        >>> np.save(folder / "offsets.npy", [0, 2])
        >>> np.save(folder / "spans.npy", np.int32([[0, 4], [5, 9]]))
        >>> np.save(folder / "vectors.npy", np.float32([[3, 4], [1, 0]]))
        >>> store = TeacherVectors(folder)
        >>> store.text(0), store.tokens(0).vectors.tolist()
        ('deep lake', [[3.0, 4.0], [1.0, 0.0]])
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        for name in (_TEXTS, _OFFSETS, _SPANS, _VECTORS):
            if not (self._directory / name).is_file():
                raise InputError(
                    f"A store of a teacher's vectors has {_TEXTS}, {_OFFSETS}, {_SPANS} and {_VECTORS}; set "
                    f"`data.teacher_vectors` to one. Received: {str(directory)!r}, which has no {name}."
                )
        self._lines = LineFile(self._directory / _TEXTS)
        self._offsets, self._spans, self._vectors = (
            np.load(self._directory / name, mmap_mode="r") for name in (_OFFSETS, _SPANS, _VECTORS)
        )
        self._check_shapes()
        self.dim = int(self._vectors.shape[1])
        self.languages = np.array(
            [self._field(i, LANGUAGE_FIELDS) or UNKNOWN_LANGUAGE for i in range(len(self))]
        )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def token_counts(self) -> np.ndarray:
        """`[texts]` int64, how many tokens the teacher has of each text."""
        return np.diff(self._offsets)

    def text(self, index: int) -> str:
        """Returns the text at `index`, from 0."""
        return self._field(index, ("text",))

    def tokens(self, index: int) -> TeacherTokens:
        """Returns the teacher's tokens of the text at `index`."""
        rows = slice(int(self._offsets[index]), int(self._offsets[index + 1]))
        return TeacherTokens(self._spans[rows], self._vectors[rows])

    def _field(self, index: int, names: tuple[str, ...]) -> str:
        try:
            return text_field(parse_object(self._lines[index]), names)
        except ValueError as error:
            raise InputError(
                f"Every line of {_TEXTS} is an object with a text. "
                f"Received: line {index + 1} of {str(self._directory / _TEXTS)!r}, where {error}."
            ) from error

    def _check_shapes(self) -> None:
        offsets, spans, vectors = self._offsets, self._spans, self._vectors
        tokens = len(vectors)
        fits = (
            (offsets.ndim, spans.ndim, vectors.ndim) == (1, 2, 2)
            and spans.shape == (tokens, 2)
            and len(self._lines) + 1 == len(offsets)
            and (offsets[0], offsets[-1]) == (0, tokens)
            and bool((np.diff(offsets) >= 0).all())
        )
        if not fits:
            raise InputError(
                "The files of a store of a teacher's vectors must fit together: one more offset than texts, "
                f"and a span and a vector per token. Received: {len(self._lines)} texts, offsets "
                f"{list(offsets.shape)}, spans {list(spans.shape)} and vectors {list(vectors.shape)} in "
                f"{str(self._directory)!r}."
            )


class TaughtStream:
    """The texts of some stores as one endless, reproducible stream, mixed by language like examples.

    The texts of a batch have similar lengths, so that little of it is padding: the texts of 32 batches are
    sorted by their number of tokens, and the batches they make come in a random order.

    Args:
        directories: Folders of the stores.
        language_temperature: As in `DataConfig`.
        seed: Seed of the shuffling.
        dim: Width of the encoder's vectors. The vectors of the stores must have the same width.
        batch_size: Texts of a batch, over all devices.

    Raises:
        InputError: A store cannot be used, has vectors of another width, or there are no texts.

    Example:
        >>> import tempfile
        >>> temporary = tempfile.TemporaryDirectory()
        >>> folder = Path(temporary.name)
        >>> _ = (folder / "texts.jsonl").write_text('{"text": "deep lake", "language": "en"}')
        >>> np.save(folder / "offsets.npy", [0, 2])
        >>> np.save(folder / "spans.npy", np.int32([[0, 4], [5, 9]]))
        >>> np.save(folder / "vectors.npy", np.float32([[3, 4], [1, 0]]))
        >>> stream = TaughtStream([temporary.name], language_temperature=1.0, seed=0, dim=2, batch_size=4)
        >>> stream.texts(position=7, size=1)
        ['deep lake']
        >>> print(stream.targets(7, starts=np.array([[0, 5]]), limits=np.array([[4, 9]])))
        [[[0.6 0.8]
          [1.  0. ]]]
    """

    def __init__(
        self, directories: Sequence[str], language_temperature: float, seed: int, dim: int, batch_size: int
    ) -> None:
        self._stores = [TeacherVectors(directory) for directory in directories]
        for store, directory in zip(self._stores, directories, strict=True):
            if store.dim != dim:
                raise InputError(
                    f"A teacher's vectors must be as wide as the encoder's, {dim}; project them. "
                    f"Received: {store.dim} in {directory!r}."
                )
        self._ends = np.cumsum([len(store) for store in self._stores])
        if not self._ends[-1]:
            raise InputError(f"The stores of `data.teacher_vectors` have no texts. Received: {directories}.")
        languages = np.concatenate([store.languages for store in self._stores])
        self._sampler = Sampler(languages, language_temperature, seed)
        self._counts = np.concatenate([store.token_counts for store in self._stores])
        self._seed, self._batch_size = seed, batch_size
        self._window = functools.lru_cache(maxsize=2)(self._ordered_window)
        self.dim = dim

    def texts(self, position: int, size: int) -> list[str]:
        """Returns the `size` texts starting at a position of the stream.

        Args:
            position: Position in the stream, from 0.
            size: Number of texts.

        Returns:
            The texts.
        """
        return [store.text(index) for store, index in self._visited(position, size)]

    def targets(self, position: int, starts: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """Returns the targets for the tokens of the texts that `texts` returns.

        Args:
            position: Position in the stream, as for `texts`.
            starts: `[size, length]` int, the first character of each of the encoder's tokens.
            limits: `[size, length]` int, the character after the last of each token. Padding is empty.

        Returns:
            `[size, length, dim]` float32 of unit length, zero for tokens without a target.
        """
        return np.stack(
            [
                align(store.tokens(index), starts[row], limits[row])
                for row, (store, index) in enumerate(self._visited(position, len(starts)))
            ]
        )

    def _visited(self, position: int, size: int) -> list[tuple[TeacherVectors, int]]:
        visited = []
        for place in range(position, position + size):
            window, within = divmod(place, _WINDOW * self._batch_size)
            index = int(self._window(window)[within])
            number = int(np.searchsorted(self._ends, index, side="right"))
            store = self._stores[number]
            visited.append((store, index - int(self._ends[number]) + len(store)))
        return visited

    def _ordered_window(self, number: int) -> np.ndarray:
        """Returns the texts of a window, batch by batch."""
        size = _WINDOW * self._batch_size
        texts = self._sampler(np.arange(number * size, (number + 1) * size))[0]
        batches = texts[np.argsort(self._counts[texts], kind="stable")].reshape(_WINDOW, self._batch_size)
        return np.random.default_rng([self._seed, 2, number]).permutation(batches).ravel()


def align(teacher: TeacherTokens, starts: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Computes the mean direction of the teacher's tokens that share characters with each token.

    Args:
        teacher: The teacher's tokens of the text.
        starts: `[length]` int, the first character of each token.
        limits: `[length]` int, the character after the last of each token.

    Returns:
        `[length, dim]` float32 of unit length, zero for a token that shares no character with any.

    Example:
        The second token has two characters of each of the teacher's tokens:

        >>> teacher = TeacherTokens(np.int32([[0, 4], [5, 9]]), np.float32([[2, 0], [0, 5]]))
        >>> print(align(teacher, np.array([0, 2]), np.array([4, 7])).round(2))
        [[1.   0.  ]
         [0.71 0.71]]
    """
    first, last = teacher.spans[:, 0], teacher.spans[:, 1]
    shared = np.minimum(limits[:, None], last[None]) - np.maximum(starts[:, None], first[None])
    return unit(np.maximum(shared, 0).astype(np.float32) @ unit(teacher.vectors))


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scales rows to unit length, as float32. Zero stays zero."""
    vectors = vectors.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
