from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.vectors.document_encoder import DocumentEncoder
from xtr_tf.vectors.passages import PassageSplitter, batches, bucket_lengths, is_punctuation

TEXTS = [
    "Nile The Nile flows north, through eleven countries.",
    "东京是日本的首都",
    " ".join(f"Word{number} GROẞE Ⱥrea" for number in range(40)),
    "a",
]


@pytest.fixture(scope="module")
def loaded(model: Path) -> tuple[Encoder, Tokenizer]:
    return load_encoder(model)


@pytest.fixture(scope="module")
def plain(loaded: tuple[Encoder, Tokenizer]) -> DocumentEncoder:
    return DocumentEncoder(*loaded, EncodingConfig())


def test_every_bucket_is_within_the_longest() -> None:
    assert bucket_lengths(512) == [32, 64, 128, 256, 512]
    assert bucket_lengths(20) == [20]
    assert bucket_lengths(100) == [50, 100]


def test_batches_hold_every_passage_once_in_few_shapes() -> None:
    counts = np.random.default_rng(0).integers(1, 513, 1000).tolist()
    seen: list[int] = []
    shapes = set()
    for length, members in batches(counts, 512, 8192):
        assert len(members) * length <= 8192
        assert max(counts[member] for member in members) <= length
        assert len(members) & (len(members) - 1) == 0, "rows are a power of two"
        shapes.add((len(members), length))
        seen.extend(members.tolist())
    assert sorted(seen) == list(range(1000))
    assert len(shapes) <= 30
    assert [len(members) for _, members in batches([512, 512], 512, 100)] == [1, 1]


def test_short_texts_are_one_passage_as_the_tokenizer_gives_it(loaded: tuple[Encoder, Tokenizer]) -> None:
    _, tokenizer = loaded
    passages = list(PassageSplitter(tokenizer, 64, 8).split(TEXTS[:2]))
    expected = tokenizer.ragged(tf.constant(TEXTS[:2]), 64).to_list()
    assert [passage.ids.tolist() for passage in passages] == expected
    assert [passage.document for passage in passages] == [0, 1]


def test_long_texts_are_windows_that_overlap_and_cover_everything(loaded: tuple[Encoder, Tokenizer]) -> None:
    _, tokenizer = loaded
    text = TEXTS[2]
    passages = list(PassageSplitter(tokenizer, 64, 8).split([text]))
    whole = tokenizer.ragged(tf.constant([text]), tf.int32.max).to_list()[0]
    assert len(passages) > 2
    for passage in passages:
        assert len(passage.ids) <= 64
        assert passage.ids[-1] == tokenizer.eos_id
        np.testing.assert_array_equal(passage.ids[:-1], np.array(whole)[passage.positions[:-1]])
        assert passage.spans[-1, 0] == passage.spans[-1, 1] == passage.spans[-2, 1]
    for before, after in itertools.pairwise(passages):
        np.testing.assert_array_equal(before.ids[-9:-1], after.ids[:8])
        assert after.positions[0] == before.positions[-1] - 8
    assert passages[-1].positions[-1] == len(whole) - 1


@pytest.mark.parametrize("overlap", [0, 1, 8, 15, 40, 62])
def test_a_shared_token_is_kept_once_where_it_is_further_from_an_edge(
    loaded: tuple[Encoder, Tokenizer], overlap: int
) -> None:
    _, tokenizer = loaded
    passages = list(PassageSplitter(tokenizer, 64, overlap).split([TEXTS[2]]))
    tokens = passages[-1].positions[-1]
    chosen: dict[int, list[int]] = {position: [] for position in range(tokens)}
    context: dict[int, list[int]] = {position: [] for position in range(tokens)}
    for passage in passages:
        assert passage.kept[-1]
        inside, last = passage.positions[:-1].tolist(), len(passage.ids) - 2
        for place, position in enumerate(inside):
            # The edges of the document cut nothing off.
            left = place if passage.positions[0] else tokens
            right = last - place if passage.positions[-1] < tokens else tokens
            context[position].append(min(left, right))
            if passage.kept[place]:
                chosen[position].append(min(left, right))
    assert {len(places) for places in chosen.values()} == {1}
    if 2 * overlap <= 63:  # three windows may share a token otherwise
        assert all(chosen[position][0] >= max(context[position]) - 1 for position in chosen)


@pytest.mark.parametrize("extra", [0, 1, 2, 55, 56])
def test_a_window_begins_only_where_there_is_something_new(
    loaded: tuple[Encoder, Tokenizer], extra: int
) -> None:
    _, tokenizer = loaded
    splitter = PassageSplitter(tokenizer, 64, 8)
    ids = np.arange(63 + extra, dtype=np.int32)
    spans = np.stack([ids, ids + 1], axis=1)
    windows = list(splitter._windows(0, ids, spans))
    assert len(windows) == (1 if extra == 0 else 2 if extra <= 55 else 3)
    assert windows[-1].positions[-1] == 63 + extra


def test_spans_point_into_the_text_as_given(loaded: tuple[Encoder, Tokenizer]) -> None:
    _, tokenizer = loaded
    for passage in PassageSplitter(tokenizer, 64, 8).split(TEXTS):
        text = TEXTS[passage.document]
        pieces = tokenizer.pieces(tf.constant(passage.ids)).numpy()
        for piece, (start, limit) in zip(pieces[:-1], passage.spans[:-1], strict=True):
            written = text[start:limit].strip().lower()
            if piece.decode() != "<unk>":
                assert piece.decode().removeprefix("▁") == written


def test_vectors_are_the_encoders_own(loaded: tuple[Encoder, Tokenizer], plain: DocumentEncoder) -> None:
    encoder, tokenizer = loaded
    documents = plain.encode([*TEXTS[:2], TEXTS[3]])
    for text, document in zip([*TEXTS[:2], TEXTS[3]], documents, strict=True):
        ids = tokenizer.ragged(tf.constant([text]), 64).to_tensor()
        expected = encoder(ids)[0].numpy()
        assert document.vectors.dtype == np.float16
        np.testing.assert_allclose(document.vectors.astype(np.float32), expected, atol=1e-3)
        np.testing.assert_array_equal(document.pieces, ids[0])
        assert document.passage_tokens.tolist() == [len(expected)]


def test_passages_of_a_document_stay_together(
    loaded: tuple[Encoder, Tokenizer], plain: DocumentEncoder
) -> None:
    encoder, tokenizer = loaded
    document = plain.encode(TEXTS)[2]
    windows = [passage for passage in PassageSplitter(tokenizer, 64, 8).split(TEXTS) if passage.document == 2]
    assert document.passage_tokens.tolist() == [np.count_nonzero(window.kept) for window in windows]
    assert document.pruned == 0
    ends = np.cumsum(document.passage_tokens)[:-1]
    for window, vectors in zip(windows, np.split(document.vectors, ends), strict=True):
        expected = encoder(tf.constant(window.ids)[tf.newaxis])[0].numpy()[window.kept]
        np.testing.assert_allclose(vectors.astype(np.float32), expected, atol=1e-3)


def test_encoding_again_gives_the_same_bits(plain: DocumentEncoder) -> None:
    for first, second in zip(plain.encode(TEXTS), plain.encode(TEXTS), strict=True):
        np.testing.assert_array_equal(first.vectors, second.vectors)


def test_punctuation_is_pruned_and_nothing_else(
    loaded: tuple[Encoder, Tokenizer], plain: DocumentEncoder
) -> None:
    _, tokenizer = loaded
    whole = plain.encode(TEXTS[:1])[0]
    pruned = DocumentEncoder(*loaded, EncodingConfig(skip_punctuation=True)).encode(TEXTS[:1])[0]
    kept = [not is_punctuation(piece.decode()) for piece in tokenizer.pieces(whole.pieces).numpy()]
    assert 0 < pruned.pruned == kept.count(False)
    for name in ("vectors", "pieces", "spans", "positions"):
        np.testing.assert_array_equal(getattr(pruned, name), getattr(whole, name)[kept])


def test_pieces_of_a_list_are_pruned(loaded: tuple[Encoder, Tokenizer]) -> None:
    _, tokenizer = loaded
    the = tokenizer.pieces(tokenizer.ragged(tf.constant(["the"]), 8)[0, :1]).numpy()[0].decode()
    pruned = DocumentEncoder(*loaded, EncodingConfig(skip_pieces=(the,))).encode(["the end of the Nile"])[0]
    assert pruned.pruned == 2
    with pytest.raises(InputError, match="no such piece"):
        DocumentEncoder(*loaded, EncodingConfig(skip_pieces=("no such piece",)))


def test_short_vectors_are_pruned_by_their_length_before_normalisation(
    loaded: tuple[Encoder, Tokenizer], plain: DocumentEncoder
) -> None:
    encoder, tokenizer = loaded
    ids = tokenizer.ragged(tf.constant(TEXTS[:1]), 64).to_tensor()
    hidden = encoder.hidden_states(ids)[0].numpy()
    norms = np.linalg.norm(hidden @ encoder.get_canonical_weights()["projection/kernel"], axis=1)
    threshold = float(np.median(norms)) + 1e-4
    whole = plain.encode(TEXTS[:1])[0]
    pruned = DocumentEncoder(*loaded, EncodingConfig(min_norm=threshold)).encode(TEXTS[:1])[0]
    assert 0 < pruned.pruned < len(norms)
    np.testing.assert_array_equal(pruned.positions, whole.positions[norms >= threshold])
    np.testing.assert_allclose(
        pruned.vectors.astype(np.float32), whole.vectors[norms >= threshold].astype(np.float32), atol=1e-3
    )


def test_a_document_keeps_its_first_tokens(loaded: tuple[Encoder, Tokenizer], plain: DocumentEncoder) -> None:
    whole, *_ = plain.encode(TEXTS[2:3])
    pruned, *_ = DocumentEncoder(*loaded, EncodingConfig(max_tokens=70)).encode(TEXTS[2:3])
    np.testing.assert_array_equal(pruned.vectors, whole.vectors[:70])
    # Half of the overlap of 8 belongs to the second window.
    assert pruned.passage_tokens.tolist()[:2] == [60, 10]
    assert len(pruned.passage_tokens) == len(whole.passage_tokens)


def test_vectors_are_stored_with_the_lengths_of_their_tokens(
    loaded: tuple[Encoder, Tokenizer], plain: DocumentEncoder
) -> None:
    config = EncodingConfig(length_penalty=0.1, repetition_bonus=0.2)
    for whole, document in zip(
        plain.encode(TEXTS), DocumentEncoder(*loaded, config).encode(TEXTS), strict=True
    ):
        counts = np.array([np.count_nonzero(whole.pieces == piece) for piece in whole.pieces])
        counts[whole.pieces == loaded[1].eos_id] = 1
        lengths = (len(whole.pieces) / 128) ** -0.1 * (1 + 0.2 * np.log(counts))
        np.testing.assert_allclose(
            document.vectors.astype(np.float32),
            lengths[:, np.newaxis] * whole.vectors.astype(np.float32),
            rtol=2.0**-10,  # rounded to float16 twice
            atol=2.0**-24,
        )
        np.testing.assert_array_equal(document.pieces, whole.pieces)


def test_documents_are_encoded_in_bfloat16(model: Path, plain: DocumentEncoder) -> None:
    def directions(encoder: DocumentEncoder) -> np.ndarray:
        vectors = np.concatenate([document.vectors for document in encoder.encode(TEXTS)]).astype(np.float64)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    exact = directions(plain)
    cosines = {}
    for policy in ("", "float32", "mixed_bfloat16"):
        encoder = DocumentEncoder.load(model, EncodingConfig(compute_dtype=policy))
        cosines[policy] = np.sum(directions(encoder) * exact, axis=1)
    # The precision of float16, as which all of them are stored, and of products in bfloat16.
    assert cosines[""].min() > 1 - 2.0**-11
    assert cosines["float32"].min() > 1 - 2.0**-11
    assert 1 - 2.0**-5 < cosines["mixed_bfloat16"].min() < cosines["float32"].min()


@pytest.mark.parametrize(
    "settings",
    [
        {"dtype": "float32"},
        {"passage_length": 1},
        {"overlap": -1},
        {"min_norm": -0.1},
        {"max_tokens": -1},
        {"length_penalty": -0.1},
        {"length_penalty": 1.0},
        {"repetition_bonus": -0.1},
        {"compute_dtype": "bfloat16"},
        {"batch_tokens": 0},
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InputError, match="Received"):
        EncodingConfig(**settings)  # type: ignore[arg-type]


def test_settings_of_vectors_are_read_back() -> None:
    config = EncodingConfig(
        overlap=5, skip_pieces=("▁the", "▁a"), max_tokens=9, length_penalty=0.05, repetition_bonus=0.1
    )
    settings = json.loads(json.dumps(config.vector_settings()))
    again = EncodingConfig.from_vector_settings(settings, keep_text=False, fields={})
    assert again.vector_settings() == config.vector_settings()
    del settings["shared_tokens"]
    with pytest.raises(InputError, match="encode the corpus again"):
        EncodingConfig.from_vector_settings(settings, keep_text=False, fields={})


def test_vectors_of_an_earlier_version_have_unit_length() -> None:
    earlier = EncodingConfig().vector_settings()
    assert not {"length_penalty", "repetition_bonus", "compute_dtype"} & set(earlier)
    again = EncodingConfig.from_vector_settings(earlier, keep_text=True, fields={})
    assert (again.length_penalty, again.repetition_bonus) == (0, 0)


def test_an_overlap_must_leave_room() -> None:
    assert EncodingConfig(overlap=62).resolved(64).overlap == 62
    assert EncodingConfig().resolved(64).overlap == 8
    with pytest.raises(InputError, match="leave room"):
        EncodingConfig(overlap=63).resolved(64)
