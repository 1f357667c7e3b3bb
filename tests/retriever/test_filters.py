"""The language of filters, against the same conditions written in Python."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.retriever.columns import make_columns
from xtr_tf.retriever.filters import MAX_LENGTH, DocumentFilter

FIELDS = {"source": "keyword", "tags": "keywords", "year": "int", "price": "float", "public": "bool"}
RECORDS = [
    {"source": "wiki", "tags": ["a", "b"], "year": 2020, "price": 1.5, "public": True},
    {"source": "faq", "tags": ["draft"], "year": 2019, "price": -2.0, "public": False},
    {"source": "wikinews", "tags": [], "year": 2021},
    {"tags": ["b", "draft"], "price": 0.25, "public": True},
    {"source": "a;b|c*%", "tags": ["x y"], "year": -5},
    {"source": "", "year": 9_000_000_000_000_000_000},
]
ALL = frozenset(range(len(RECORDS)))


@pytest.fixture(scope="module")
def allowed():
    document_filter = DocumentFilter(make_columns(RECORDS, FIELDS), len(RECORDS))
    run = tf.function(document_filter.allowed, input_signature=[tf.TensorSpec([], tf.string)])
    return lambda text: frozenset(np.flatnonzero(run(tf.constant(text)).numpy()).tolist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ALL),
        (" ; ;", ALL),
        ("source=wiki", {0}),
        (" source = wiki ", {0}),
        ("source=wiki|faq", {0, 1}),
        ("source=wiki*", {0, 2}),
        ("source=*", {0, 1, 2, 4, 5}),
        ("source!=wiki", ALL - {0}),
        ("source!=wiki*|faq", {3, 4, 5}),
        ("source=", {5}),
        ("source=Wiki", set()),
        ("source=a%3Bb%7Cc%2A%25", {4}),
        ("source=a%3bb*", {4}),
        ("tags=b", {0, 3}),
        ("tags!=draft", {0, 2, 4, 5}),
        ("tags=x y", {4}),
        ("year=2020", {0}),
        ("year=2020|2021", {0, 2}),
        ("year!=2020", ALL - {0}),
        ("year>=2020", {0, 2, 5}),
        ("year>2020", {2, 5}),
        ("year<2020", {1, 4}),
        ("year<=-5", {4}),
        ("price>0", {0, 3}),
        ("price=.25|1.5e0", {0, 3}),
        ("price<=-2", {1}),
        ("public=true", {0, 3}),
        ("public=0", {1}),
        ("public!=true", {1, 2, 4, 5}),
        ("year>=2019;year<2021;source=wiki|faq;tags!=draft", {0}),
        ("source=nobody", set()),
    ],
)
def test_what_passes(allowed, text, expected):
    assert allowed(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("year", r"form field=value.*at byte.*0.*fields are price, public, source, tags, year"),
        ("source=wiki;;year~3", r"form field=value.*at byte.*13"),
        ("=3", "form field=value"),
        ("color=red", r"unknown field.*at byte.*0.*fields are price"),
        ("source=wiki;color=red", r"unknown field.*at byte.*12"),
        ("source<wiki", "field of texts.* in another way"),
        ("year=soon", "field of whole numbers with something else"),
        ("year=1|soon", "field of whole numbers with something else"),
        ("year=", "field of whole numbers with something else"),
        ("year=1e3", "field of whole numbers with something else"),
        ("year=99999999999999999999", "field of whole numbers with something else"),
        ("price=nan", "field of numbers with something else"),
        ("price=inf", "field of numbers with something else"),
        ("public=maybe", "field of true or false with something else"),
        ("year>1|2", "with one value only"),
        ("a" * (MAX_LENGTH + 1), "may have 8192 bytes"),
        (";".join(["year=1"] * 65), "may have 64 clauses"),
        ("\xff=1", "form field=value"),
    ],
)
def test_what_cannot_be_understood(allowed, text, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        allowed(text)


def test_sizes_are_reported():
    columns = make_columns(RECORDS, FIELDS)
    assert columns["year"].num_bytes == len(RECORDS) * 9
    assert columns["source"].num_bytes > len("wikifaqwikinews")
