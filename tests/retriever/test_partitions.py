"""Splitting a corpus: no document is cut, no partition is empty, and none is larger than a model can be."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xtr_tf.errors import InputError
from xtr_tf.retriever.collection_file import Collection, PartitionEntry, read_collection
from xtr_tf.retriever.partitions import MOST, split, whole


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 12))
def test_partitions_are_all_documents_once(lengths, count):
    filled = sum(length > 0 for length in lengths)
    if filled < count:
        with pytest.raises(InputError, match=rf"at most {filled} partitions. Received: {count}"):
            split(offsets_of(lengths), count)
        return
    partitions = split(offsets_of(lengths), count)
    assert len(partitions) == count
    documents = [n for part in partitions for n in range(part.first_document, part.last_document)]
    assert documents == list(range(len(lengths)))
    for part in partitions:
        own = lengths[part.first_document : part.last_document]
        assert part.num_tokens == sum(own) > 0
        assert part.document_of_token.tolist() == [n for n, length in enumerate(own) for _ in range(length)]
    largest = max(part.num_tokens for part in partitions)
    assert largest <= sum(lengths) / count + max(lengths) or min(p.num_documents for p in partitions) == 1


def test_one_enormous_document_gets_its_own_partition():
    partitions = split(offsets_of([1, 1, 10_000, 1, 1]), 3)
    assert [part.num_documents for part in partitions] == [2, 1, 2]


def test_more_than_a_model_holds_is_refused_with_a_number_that_will_do():
    lengths = np.full(1000, 15_000_000)
    with pytest.raises(InputError, match=r"--partitions (\d+)") as error:
        whole(offsets_of(lengths))
    needed = int(str(error.value).split("--partitions ")[1].split(")")[0])
    assert max(part.num_tokens for part in split(offsets_of(lengths), needed)) <= MOST
    with pytest.raises(InputError):
        split(offsets_of(lengths), needed - 1)
    with pytest.raises(InputError, match=r"split the document. Received: 3000000000 tokens"):
        split(offsets_of([5, 3_000_000_000, 5]), 2)
    with pytest.raises(InputError, match="at least one partition"):
        split(offsets_of([5]), 0)


ENTRY = PartitionEntry("partition-0", 3, "a", 2, 9, {"de": 1, "en": 1})


def test_a_collection_is_read_as_it_was_written(tmp_path):
    other = dataclasses.replace(ENTRY, path="partition-1", fingerprint="b", languages={"en": 2})
    collection = Collection(3, "encoder", "quantizer", (ENTRY, other))
    assert read_collection(collection.write(tmp_path)) == collection
    assert read_collection(tmp_path / "collections" / "3.json") == collection
    assert (collection.documents, collection.tokens) == (4, 18)
    assert json.loads((tmp_path / "collection.json").read_bytes())["languages"] == {"de": 1, "en": 3}


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ((), "at least one partition"),
        ((ENTRY, ENTRY), "must not hold the same documents.* Received: partitions 0 and 1"),
        (
            (dataclasses.replace(ENTRY, version=2),),
            "have its version, 3.* Received: version 2 of partition 0",
        ),
    ],
)
def test_partitions_that_do_not_belong_together_are_refused(tmp_path, entries, sentence):
    path = Collection(3, "encoder", "quantizer", entries).write(tmp_path)
    with pytest.raises(InputError, match=sentence):
        read_collection(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "xtr-collection", "form": 2}'])
def test_what_is_not_a_collection_is_refused(tmp_path, content):
    path = tmp_path / "collection.json"
    with pytest.raises(InputError, match="There is no collection"):
        read_collection(path)
    path.write_text(content)
    with pytest.raises(InputError, match="not a collection that this version"):
        read_collection(path)
