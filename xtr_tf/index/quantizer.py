"""All that is trained before tokens are indexed: k-means leaves, 4-bit codebooks, int8 and int4 scales.

A trained quantiser encodes blocks of vectors independently of each other, so that different processes can
encode the shards of a corpus. Knows nothing about TensorFlow, and about files only that an index has arrays
with names. FAISS and Numba are imported where they are used, because an exact index needs neither.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index.folder import TokenIndex, save_array
from xtr_tf.index.kmeans import nearest_centres
from xtr_tf.index.routing import LeafRouter, train_leaves
from xtr_tf.index.rules import number_of_leaves, sample_size
from xtr_tf.index.vector_source import VectorSource, require_finite, require_tokens
from xtr_tf.progress import track

#: Arrays of an index that are trained, by their names in its directory.
TRAINED = ("centres", "multipliers", "int4_multipliers", "codebook")
_TRAINED_FILES = (*(f"{name}.npy" for name in TRAINED), "router_")
#: An int4 value stands for its distance from this one, in steps.
INT4_MIDDLE = 7.5
#: The step between int4 values, in standard deviations. With 16 values, this one has the least mean squared
#: error for a normal distribution ([Max, 1960](https://doi.org/10.1109/TIT.1960.1057548)).
INT4_STEP = 0.3352
#: Longest run of consecutive tokens in a sample. A short document is one run. A long one is several, so that
#: it does not make up more of the sample than of the corpus.
RUN = 256


@dataclasses.dataclass(frozen=True)
class TokenQuantizer:
    """Leaves and codebooks, trained on a sample.

    Attributes:
        centres: `[leaves, dim]` float32.
        codebook: `[blocks, 16, dim / blocks]` float32, codewords of residuals. It has no blocks if the index
            stores vectors instead of codes.
        multipliers: `[dim]` float32. An int8 vector is the rounded product of a vector and these.
        threshold: Threshold of the anisotropic loss.
        router: A faster way to find leaves; None to compare a token with all centres.
        int4_multipliers: `[dim]` float32, like `multipliers`, for the distances of int4 vectors from the
            centres of their leaves. It is empty if the index stores no int4 vectors.
    """

    centres: np.ndarray
    codebook: np.ndarray
    multipliers: np.ndarray
    threshold: float
    router: LeafRouter | None = None
    int4_multipliers: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, np.float32))

    def assign(self, vectors: np.ndarray) -> np.ndarray:
        """Returns the nearest leaf (L2) of each vector. With a router, 1% may get one that is farther.

        Args:
            vectors: `[tokens, dim]` floats.

        Returns:
            `[tokens]` of `leaf_dtype`.
        """
        floats = vectors.astype(np.float32, copy=False)
        find = self.router.nearest if self.router else nearest_centres
        return find(floats, self.centres).astype(self.leaf_dtype)

    def encode(self, vectors: np.ndarray, leaf_of_token: np.ndarray) -> np.ndarray:
        """Returns the packed 4-bit codes of vectors.

        Args:
            vectors: `[tokens, dim]` float32.
            leaf_of_token: `[tokens]` int32.

        Returns:
            `[tokens, ceil(blocks / 2)]` uint8, two codes per byte.
        """
        from xtr_tf.index import anisotropic

        codes = anisotropic.encode(vectors, self.centres, leaf_of_token, self.codebook, self.threshold)
        return anisotropic.pack(codes)

    def to_int8(self, vectors: np.ndarray) -> np.ndarray:
        """Returns vectors as int8. Values outside the range of the sample are clipped.

        Args:
            vectors: `[tokens, dim]` floats.

        Returns:
            `[tokens, dim]` int8.
        """
        return np.clip(np.rint(vectors * self.multipliers), -127, 127).astype(np.int8)

    def to_int4(self, vectors: np.ndarray, leaf_of_token: np.ndarray) -> np.ndarray:
        """Returns the distances of vectors from the centres of their leaves as int4, two per byte.

        Args:
            vectors: `[tokens, dim]` floats.
            leaf_of_token: `[tokens]` integers.

        Returns:
            `[tokens, dim / 2]` uint8. The low bits are the first half of the dimensions, the high bits the
            second. A value stands for `(value - INT4_MIDDLE) / int4_multiplier`.
        """
        scaled = (vectors - self.centres[leaf_of_token]) * self.int4_multipliers
        values = np.clip(np.rint(scaled + INT4_MIDDLE), 0, 15).astype(np.uint8)
        low, high = np.split(values, 2, axis=1)
        return low | high << 4

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the trained arrays. Codes of two quantisers with the same fingerprint can be mixed."""
        digest = hashlib.sha256(str(self.threshold).encode())
        for name in TRAINED:
            digest.update(np.ascontiguousarray(getattr(self, name)).data)
        return digest.hexdigest()

    def write(self, folder: Path) -> None:
        """Writes the trained arrays into the folder of an index, or into one of their own.

        Args:
            folder: The folder, which exists.
        """
        for name in TRAINED:
            if len(array := getattr(self, name)):
                save_array(folder, name, array)
        if self.router is not None:
            for field in dataclasses.fields(self.router):
                save_array(folder, f"router_{field.name}", getattr(self.router, field.name))

    @classmethod
    def read(cls, folder: Path, config: IndexConfig) -> TokenQuantizer:
        """Reads the arrays that `write` has written.

        Args:
            folder: The folder.
            config: Configuration of the index.

        Returns:
            The quantiser.
        """
        arrays = {"codebook": _no_codes(config)}
        unused = {"codebook": config.kind != "scann", "int4_multipliers": config.dtype != "int4"}
        for name in TRAINED:
            if not unused.get(name):
                arrays[name] = np.load(folder / f"{name}.npy", allow_pickle=False)
        return cls(**arrays, threshold=config.anisotropic_threshold, router=_read_router(folder))

    @property
    def leaf_dtype(self) -> np.dtype:
        """The smaller of uint16 and int32 that can number the leaves."""
        return np.dtype(np.uint16 if len(self.centres) <= 1 << 16 else np.int32)


def train_quantizer(source: VectorSource, config: IndexConfig) -> TokenQuantizer:
    """Trains a quantiser on a random sample of the source.

    Args:
        source: The vectors to index.
        config: Number of leaves, size of the sample and number of iterations.

    Returns:
        The quantiser.

    Raises:
        InputError: If there are no tokens, if vectors are not finite, or if `dims_per_block` does not divide
            their width.
    """
    return train_on_sample(source.take(sample_of(source.document_offsets, config)), source.num_tokens, config)


def sample_of(document_offsets: np.ndarray, config: IndexConfig) -> np.ndarray:
    """Chooses the tokens to train on, without looking at their vectors.

    Runs of consecutive tokens are drawn, because only the documents of these runs have to be read, or encoded
    (see `one_pass.py`).

    Args:
        document_offsets: `[documents + 1]`; tokens of document `i` are `[i]` to `[i + 1]`.
        config: Number of leaves, size of the sample and seed.

    Returns:
        `[sample]` int64 token ordinals, ascending.

    Raises:
        InputError: If there are no tokens.
    """
    num_tokens = int(document_offsets[-1])
    require_tokens(num_tokens)
    num_leaves = _num_leaves(num_tokens, config)
    size = min(max(config.sample_size or sample_size(num_tokens, num_leaves), num_leaves), num_tokens)
    counts = -(-np.diff(document_offsets) // RUN)
    in_document = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    firsts = np.repeat(document_offsets[:-1], counts) + RUN * in_document
    lengths = np.minimum(np.repeat(document_offsets[1:], counts) - firsts, RUN)
    drawn = np.random.default_rng(config.seed).permutation(len(firsts))
    ends = np.cumsum(lengths[drawn])
    enough = int(np.searchsorted(ends, size)) + 1
    drawn, ends = drawn[:enough], ends[:enough]
    lengths = lengths[drawn]
    lengths[-1] -= ends[-1] - size
    starts = np.cumsum(lengths) - lengths
    return np.sort(np.repeat(firsts[drawn] - starts, lengths) + np.arange(size))


def train_on_sample(sample: np.ndarray, num_tokens: int, config: IndexConfig) -> TokenQuantizer:
    """Trains a quantiser.

    Args:
        sample: `[sample, dim]` float32, the vectors of the tokens that `sample_of` chose.
        num_tokens: Number of tokens to index.
        config: Number of leaves and of iterations.

    Returns:
        The quantiser.

    Raises:
        InputError: If vectors are not finite, or if `dims_per_block` does not divide their width.
    """
    if sample.shape[1] % config.dims_per_block:
        raise InputError(
            f"`index.dims_per_block` must divide the width of the vectors, {sample.shape[1]}. "
            f"Received: {config.dims_per_block}."
        )
    if config.dtype == "int4" and sample.shape[1] % 2:
        raise InputError(
            "`index.dtype` int4 keeps two dimensions per byte and needs vectors of an even width. "
            f"Received: width {sample.shape[1]}."
        )
    require_finite(sample)
    num_leaves = _num_leaves(num_tokens, config)
    centres, router = train_leaves(sample, num_leaves, config.kmeans_iterations, config.seed + 1)
    quantizer = TokenQuantizer(
        centres=centres,
        codebook=_no_codes(config),
        multipliers=(127.0 / np.maximum(np.abs(sample).max(axis=0), 1e-6)).astype(np.float32),
        threshold=config.anisotropic_threshold,
        router=router,
    )
    if config.kind != "scann" and config.dtype != "int4":
        return quantizer
    residuals = sample - centres[quantizer.assign(sample)]
    if config.dtype == "int4":
        steps = INT4_STEP * np.maximum(residuals.std(axis=0), 1e-6)
        return dataclasses.replace(quantizer, int4_multipliers=(1.0 / steps).astype(np.float32))
    return dataclasses.replace(quantizer, codebook=_train_codebook(residuals, config.dims_per_block))


def _num_leaves(num_tokens: int, config: IndexConfig) -> int:
    return min(config.num_leaves or number_of_leaves(num_tokens), num_tokens)


def trained_quantizer(index: TokenIndex) -> TokenQuantizer | None:
    """Returns the quantiser of an index, to index more documents in the same way.

    Args:
        index: The index.

    Returns:
        The quantiser; None for an exact index.
    """
    if index.config.kind == "exact":
        return None
    for name in index.manifest.files:
        if name.startswith(_TRAINED_FILES):
            index.file(name)
    return TokenQuantizer.read(index.directory, index.config)


def _no_codes(config: IndexConfig) -> np.ndarray:
    from xtr_tf.index.anisotropic import CODEWORDS

    return np.empty((0, CODEWORDS, config.dims_per_block), np.float32)


def _read_router(folder: Path) -> LeafRouter | None:
    paths = {field.name: folder / f"router_{field.name}.npy" for field in dataclasses.fields(LeafRouter)}
    if not all(path.is_file() for path in paths.values()):
        return None
    return LeafRouter(**{name: np.load(path, allow_pickle=False) for name, path in paths.items()})


def _train_codebook(residuals: np.ndarray, dims_per_block: int) -> np.ndarray:
    import faiss

    from xtr_tf.index.anisotropic import CODEWORDS

    if len(residuals) < CODEWORDS:
        residuals = np.resize(residuals, (CODEWORDS, residuals.shape[1]))
    blocks = residuals.shape[1] // dims_per_block
    quantizer = faiss.ProductQuantizer(residuals.shape[1], blocks, 4)
    quantizer.cp.min_points_per_centroid = 1
    with _one_thread(), track("train codebooks"):
        quantizer.train(np.ascontiguousarray(residuals))
    return faiss.vector_to_array(quantizer.centroids).reshape(blocks, CODEWORDS, dims_per_block)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Uses one thread: many tiny k-means problems are faster without threads that wait for each other."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
