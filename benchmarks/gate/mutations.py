"""Ways to damage a good export, each as small as a real mistake. The gate must refuse all of them.

A mutation changes the files of a copied export and leaves its reference cases and its checksums alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2
from tensorflow.core.protobuf import saved_model_pb2

from xtr_tf.errors import InputError
from xtr_tf.retriever.gate import problems_of
from xtr_tf.retriever.reference_cases import Reference, read_reference
from xtr_tf.runtime import SavedModelSession

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_TOKENS_PER_BLOCK = 32  # of the table of owners


class Mutation(NamedTuple):
    """One mistake.

    Attributes:
        name: The mistake in a few words.
        kinds: The kinds of index that it applies to.
        signature: The signature whose answers must reveal it; "" if the model's defaults do, or if the model
            does not load.
        apply: Makes the mistake in a directory.
    """

    name: str
    kinds: tuple[str, ...]
    signature: str
    apply: Callable[[Path], None]


def mutations_of(kind: str, directory: Path) -> list[Mutation]:
    """All mutations of an export of this kind (`exact`, `core`, `scann` or `reordered`)."""
    shapes = tf.train.load_checkpoint(_prefix(directory)).get_variable_to_shape_map()
    weights = sorted(name.removesuffix(_VALUE) for name in shapes if name.startswith("encoder_variables/"))
    noisy = [
        Mutation(f"1% noise on {name}", _ALL, "encode_query", _variable(name, _noise)) for name in weights
    ]
    squares = [name for name in weights if len(set(shapes[name + _VALUE])) == 1 < len(shapes[name + _VALUE])]
    turned = [
        Mutation(f"{name} transposed", _ALL, "encode_query", _variable(name, np.transpose))
        for name in squares
    ]
    return [mutation for mutation in (*noisy, *turned, *_MUTATIONS) if kind in mutation.kinds]


def refusal(directory: Path, mutation: Mutation) -> str | None:
    """Returns the gate's first complaint about a mutated export; None if the gate accepts it.

    Runs in this process and without Grappler, because a fresh process makes no difference to a mutation.
    """
    reference = read_reference(directory)
    cases = [case for case in reference.cases if case.signature == mutation.signature]
    try:
        with SavedModelSession(directory) as session:
            problems = problems_of(session, Reference(cases, reference.defaults))
            return next((problem for problem in problems if "has no reference answer" not in problem), None)
    except InputError as error:
        return str(error)


def read_variables(directory: Path) -> dict[str, Any]:
    """The tensors of a model's checkpoint, by name."""
    reader = tf.train.load_checkpoint(_prefix(directory))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def _prefix(directory: Path) -> str:
    return str(directory / "variables" / "variables")


def _variable(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """Changes one variable of a checkpoint, and writes the checkpoint so that it is valid again."""

    def apply(directory: Path) -> None:
        tensors = read_variables(directory)
        before = tensors[name + _VALUE]
        tensors[name + _VALUE] = np.asarray(change(before.copy()), before.dtype)
        for file in (directory / "variables").iterdir():
            file.unlink()
        tf.raw_ops.SaveV2(
            prefix=_prefix(directory),
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=[tf.constant(value) for value in tensors.values()],
        )

    return apply


def _graph(change: Callable[[Any], None]) -> Callable[[Path], None]:
    """Changes the meta graph of a SavedModel."""

    def apply(directory: Path) -> None:
        file = directory / "saved_model.pb"
        model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
        change(model.meta_graphs[0])
        file.write_bytes(model.SerializeToString())

    return apply


def _noise(values: np.ndarray) -> np.ndarray:
    return values * (1 + 0.01 * np.random.default_rng(0).standard_normal(values.shape))


def _exchange(first: Any, second: Any) -> Callable[[np.ndarray], np.ndarray]:
    def change(values: np.ndarray) -> np.ndarray:
        values[[*first, *second]] = values[[*second, *first]]
        return values

    return change


def _rotate(vectors: np.ndarray) -> np.ndarray:
    dim = vectors.shape[1]
    turned, _ = np.linalg.qr(np.random.default_rng(0).standard_normal([dim, dim]))
    return vectors.astype(np.float32) @ turned


def _next_document(blocks: np.ndarray) -> np.ndarray:
    tokens = np.arange(_TOKENS_PER_BLOCK)
    beginnings = blocks[:, 1:] >> tokens & 1
    owners = (blocks[:, :1] - np.cumsum(beginnings[:, ::-1], axis=1)[:, ::-1]).reshape(-1)
    last = np.flatnonzero(owners == owners[len(owners) // 2])[-1]
    block, place = divmod(int(last), _TOKENS_PER_BLOCK)
    # The next document begins with this token, not with the one after it.
    if place < _TOKENS_PER_BLOCK - 1:
        blocks[block, 1] &= ~(1 << place)
    else:
        blocks[block, 0] += 1
    if place:
        blocks[block, 1] |= 1 << (place - 1)
    return blocks


def _shift_leaves(leaves: np.ndarray) -> np.ndarray:
    return (leaves + 1) % (leaves.max() + 1)


def _shift_offsets(offsets: np.ndarray) -> np.ndarray:
    offsets[1:-1] = np.maximum(offsets[1:-1] - 1, 0)
    return offsets


def _exchange_codewords(serialized: np.ndarray) -> np.ndarray:
    """Exchanges two of the 16 codewords of one block."""
    from scann.proto import centers_pb2

    codebook = centers_pb2.CentersForAllSubspaces.FromString(serialized[0])
    centres = codebook.subspace_centers[3].center
    first, second = centres[4].SerializeToString(), centres[9].SerializeToString()
    centres[4].ParseFromString(second)
    centres[9].ParseFromString(first)
    return np.array([codebook.SerializeToString()], object)


def _exchange_centres(serialized: np.ndarray) -> np.ndarray:
    """Exchanges the centres of two leaves."""
    from scann.partitioning import partitioner_pb2

    partitioner = partitioner_pb2.SerializedPartitioner.FromString(serialized[0])
    centres = partitioner.kmeans.kmeans_tree.root.centers
    first, second = centres[1].SerializeToString(), centres[2].SerializeToString()
    centres[1].ParseFromString(second)
    centres[2].ParseFromString(first)
    return np.array([partitioner.SerializeToString()], object)


def _nodes(meta_graph: Any) -> list[Any]:
    functions = meta_graph.graph_def.library.function
    return [*meta_graph.graph_def.node, *(node for function in functions for node in function.node_def)]


def _keep_case(meta_graph: Any) -> None:
    for node in _nodes(meta_graph):
        if node.op == "StringLower":
            node.op = "Identity"
            node.attr.clear()
            node.attr["T"].type = tf.string.as_datatype_enum


def _other_vocabulary(meta_graph: Any) -> None:
    """Gives every ordinary piece the id of its neighbour."""
    for node in _nodes(meta_graph):
        if node.op == "SentencepieceOp":
            model = sentencepiece_model_pb2.ModelProto.FromString(node.attr["model"].s)
            pieces = [piece for piece in model.pieces if piece.type == piece.NORMAL]
            names = [piece.piece for piece in pieces]
            for piece, name in zip(pieces, [*names[1:], names[0]], strict=True):
                piece.piece = name
            node.attr["model"].s = model.SerializeToString()


def _default_in_graph(meta_graph: Any) -> None:
    for node in meta_graph.graph_def.node:
        if node.name == "search_k_prime/input":
            node.attr["value"].tensor.int_val[0] += 1


def _default_in_signature(meta_graph: Any) -> None:
    meta_graph.signature_def["search"].defaults["k_prime"].int_val[0] += 1


def _default_of_serving(meta_graph: Any) -> None:
    """Halves the k' that `serving_default` closes over."""
    default = meta_graph.signature_def["search"].defaults["k_prime"].int_val[0]
    for node in meta_graph.graph_def.node:
        value = node.attr["value"].tensor
        if node.op == "Const" and node.name.startswith("Const") and list(value.int_val) == [default]:
            value.int_val[0] //= 2


def _unknown_op(meta_graph: Any) -> None:
    """Simulates a runtime without the op library."""
    for node in _nodes(meta_graph):
        if node.op.startswith("Sentencepiece"):
            node.op = f"Missing{node.op}"


def _truncate(directory: Path) -> None:
    (data,) = (directory / "variables").glob("variables.data-*")
    data.write_bytes(data.read_bytes()[:-64])


def _rows(start: int, count: int = 8) -> list[int]:
    return list(range(start, start + count))


_ALL = ("exact", "core", "scann", "reordered")
_SCANN = ("scann", "reordered")
_HITS = "search_vectors_tokens"
_BLOCKS = _exchange(_rows(0), _rows(100))
_TWO = _exchange([3], [4])
_MUTATIONS: Sequence[Mutation] = (
    Mutation("ids of two documents exchanged", _ALL, _HITS, _variable("documents/ids", _TWO)),
    Mutation("titles of two documents exchanged", _ALL, _HITS, _variable("documents/titles", _TWO)),
    Mutation(
        "languages moved by one",
        _ALL,
        _HITS,
        _variable("documents/language/codes", lambda v: np.roll(v, 1)),
    ),
    Mutation("a token given to the next document", _ALL, _HITS, _variable("owners/blocks", _next_document)),
    Mutation("spans of tokens moved by one", _ALL, "explain", _variable("tokens/origins", lambda v: v + 1)),
    Mutation(
        "two blocks of vectors exchanged", ("exact", "core"), _HITS, _variable("searcher/vectors", _BLOCKS)
    ),
    Mutation("two vectors exchanged", ("exact", "core"), _HITS, _variable("searcher/vectors", _TWO)),
    Mutation("index of another encoder", ("exact",), _HITS, _variable("searcher/vectors", _rotate)),
    Mutation(
        "leaves moved by one vector", ("core",), _HITS, _variable("searcher/leaf_offsets", _shift_offsets)
    ),
    Mutation("two postings exchanged", ("core",), _HITS, _variable("searcher/postings", _TWO)),
    Mutation("two centres exchanged", ("core",), _HITS, _variable("searcher/centres", _TWO)),
    Mutation("1% noise on the scales", ("core",), _HITS, _variable("searcher/scales", _noise)),
    Mutation(
        "vectors to rescore by of the next token",
        ("core",),
        "search",
        _variable("searcher/posting_of_token", lambda v: np.roll(v, 1)),
    ),
    Mutation("two blocks of codes exchanged", _SCANN, _HITS, _variable("searcher/codes", _BLOCKS)),
    Mutation("leaves moved by one", _SCANN, _HITS, _variable("searcher/leaf_of_token", _shift_leaves)),
    Mutation("two codewords exchanged", _SCANN, _HITS, _variable("searcher/codebook", _exchange_codewords)),
    Mutation("two centres exchanged", _SCANN, _HITS, _variable("searcher/partitioner", _exchange_centres)),
    Mutation(
        "two blocks of int8 vectors exchanged", ("reordered",), _HITS, _variable("searcher/int8/0", _BLOCKS)
    ),
    Mutation("1% noise on the multipliers", ("reordered",), _HITS, _variable("searcher/int8/1", _noise)),
    Mutation("lower-casing off", _ALL, "encode_query", _graph(_keep_case)),
    Mutation("another vocabulary", _ALL, "encode_query", _graph(_other_vocabulary)),
    Mutation("another default of k' in the graph", _ALL, "", _graph(_default_in_graph)),
    Mutation("another default of k' in the signature", _ALL, "", _graph(_default_in_signature)),
    Mutation("another k' of serving_default", _ALL, "serving_default", _graph(_default_of_serving)),
    Mutation("an op of no library", _ALL, "", _graph(_unknown_op)),
    Mutation("a truncated variable", _ALL, "", _truncate),
)
