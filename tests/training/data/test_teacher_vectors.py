"""A teacher's vectors: the store, and the targets made from them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.numbers import rounding
from xtr_tf.errors import InputError
from xtr_tf.training.data.batches import TaughtTexts, taught_dataset
from xtr_tf.training.data.teacher_vectors import TaughtStream, TeacherTokens, TeacherVectors, align

DIM = 6


def write_store(folder: Path, texts: list[tuple[str, str]], dim: int = DIM, dtype: type = np.float32) -> Path:
    """Writes the store of a teacher that splits texts at spaces."""
    rng = np.random.default_rng(len(texts))
    spans = [_words(text) for text, _ in texts]
    folder.mkdir()
    lines = [json.dumps({"text": text, "language": language}) for text, language in texts]
    (folder / "texts.jsonl").write_text("\n".join(lines) + "\n")
    np.save(folder / "offsets.npy", np.cumsum([0, *map(len, spans)]))
    np.save(folder / "spans.npy", np.concatenate(spans).astype(np.int32))
    vectors = rng.normal(size=(sum(map(len, spans)), dim)) * 50
    np.save(folder / "vectors.npy", vectors.astype(dtype))
    return folder


def _words(text: str) -> np.ndarray:
    ends = [i for i, character in enumerate(text) if character == " "] + [len(text)]
    return np.stack([[0, *(end + 1 for end in ends[:-1])], ends], axis=1)


def unit(vector: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vector)
    return vector / length if length else vector


def character_by_character(teacher: TeacherTokens, start: int, limit: int) -> np.ndarray:
    """Adds the teacher's direction once for every character that a token shares with one of its own."""
    total = np.zeros(teacher.vectors.shape[1])
    for character in range(start, limit):
        for (first, last), vector in zip(teacher.spans, teacher.vectors, strict=True):
            if first <= character < last:
                total += unit(vector.astype(np.float64))
    return unit(total)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_a_target_is_the_mean_direction_over_shared_characters(dtype):
    rng = np.random.default_rng(0)
    spans = np.array([[0, 3], [4, 9], [9, 10], [12, 15]], np.int32)
    teacher = TeacherTokens(spans, (rng.normal(size=(4, DIM)) * 40).astype(dtype))
    starts, limits = np.array([0, 2, 4, 10, 8, 15, 0]), np.array([3, 6, 10, 12, 14, 15, 0])
    targets = align(teacher, starts, limits)
    expected = [character_by_character(teacher, *span) for span in zip(starts, limits, strict=True)]
    np.testing.assert_allclose(targets, expected, rtol=0, atol=rounding(16))
    assert not targets[3].any()  # between the teacher's tokens
    assert not targets[5:].any()  # empty: the end of the sequence, and padding


TEXTS = [("The Nile flows North", "en"), ("Der Nil", "de"), ("Ärmel \U0001f3d4 Öl", "de"), ("a b c", "en")]


def test_texts_come_with_the_targets_of_their_own_tokens(tmp_path, tiny_corpus):
    """With lower-casing and multi-byte characters."""
    store = TeacherVectors(write_store(tmp_path / "store", TEXTS))
    assert list(store.languages) == ["en", "de", "de", "en"]
    stream = TaughtStream([str(tmp_path / "store")], 1.0, seed=3, dim=DIM, batch_size=4)
    tokenizer = tiny_corpus.tokenizer
    (batch,) = taught_dataset(stream, tokenizer, 4, range(1))
    assert isinstance(batch, TaughtTexts)
    assert batch.ids.shape == [4, tokenizer.config.document_length]
    texts = stream.texts(0, 4)
    spans = tokenizer.with_offsets(texts, tokenizer.config.document_length)
    np.testing.assert_array_equal(batch.ids, spans.ids.to_tensor(shape=batch.ids.shape))
    for row, text in enumerate(texts):
        teacher = store.tokens([known for known, _ in TEXTS].index(text))
        starts, limits = spans.character_starts[row].numpy(), spans.character_limits[row].numpy()
        expected = [character_by_character(teacher, *span) for span in zip(starts, limits, strict=True)]
        assert sum(map(np.any, expected)) >= 2
        np.testing.assert_allclose(
            batch.targets[row, : len(starts)],
            expected,
            rtol=0,
            atol=rounding(tokenizer.config.document_length),
        )
        assert not batch.targets[row, len(starts) - 1 :].numpy().any()


def test_texts_of_a_batch_have_similar_lengths(tmp_path):
    """All texts come equally often, and not from short to long."""
    texts = [(" ".join("a" * size), "en") for size in range(1, 17)]
    store = write_store(tmp_path / "store", texts)
    stream = TaughtStream([str(store)], 1.0, seed=3, dim=DIM, batch_size=8)
    batches = [stream.texts(position, 8) for position in range(0, 64 * 8, 8)]
    counts = Counter(text for batch in batches for text in batch)
    assert counts == {text: 32 for text, _ in texts}
    lengths = [[len(text.split()) for text in batch] for batch in batches]
    assert all(max(batch) - min(batch) <= 1 for batch in lengths)
    first = [min(batch) for batch in lengths]
    assert first != sorted(first)
    assert stream.texts(13, 3) == batches[1][5:]


def test_hosts_split_the_texts_of_one_device(tmp_path, tiny_corpus):
    folders = [write_store(tmp_path / "a", TEXTS), write_store(tmp_path / "b", [("third", "fr")] * 2)]
    stream = TaughtStream(list(map(str, folders)), 2.0, seed=0, dim=DIM, batch_size=4)
    whole = list(taught_dataset(stream, tiny_corpus.tokenizer, 4, range(2, 4)))
    parts = [
        list(taught_dataset(stream, tiny_corpus.tokenizer, 2, range(2, 4), range(host, host + 1), 2))
        for host in range(2)
    ]
    for step, batch in enumerate(whole):
        for own, theirs in zip(batch, zip(parts[0][step], parts[1][step], strict=True), strict=True):
            np.testing.assert_array_equal(own, np.concatenate(theirs))
    (cut,) = taught_dataset(stream, tiny_corpus.tokenizer, 4, range(2, 3), static_shapes=False)
    length = cut.ids.shape[1]
    assert length < tiny_corpus.tokenizer.config.document_length
    np.testing.assert_array_equal(cut.targets, whole[0].targets[:, :length])


def test_a_store_that_cannot_be_used_is_refused(tmp_path):
    folder = write_store(tmp_path / "store", TEXTS)
    with pytest.raises(InputError, match=r"as wide as the encoder's, 8; project them\. Received: 6 in"):
        TaughtStream([str(folder)], 1.0, seed=0, dim=8, batch_size=4)
    np.save(folder / "spans.npy", np.zeros([3, 2], np.int32))
    with pytest.raises(InputError, match=r"must fit together.* spans \[3, 2\]"):
        TeacherVectors(folder)
    (folder / "spans.npy").unlink()
    with pytest.raises(InputError, match=r"which has no spans\.npy"):
        TeacherVectors(folder)


def test_a_line_without_a_text_is_named(tmp_path):
    folder = write_store(tmp_path / "store", TEXTS)
    (folder / "texts.jsonl").write_text('{"text": "a"}\n' * 3 + "[]\n")
    with pytest.raises(InputError, match=r"Received: line 4 of .*texts\.jsonl"):
        TeacherVectors(folder)
