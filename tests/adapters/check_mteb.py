"""Run by `test_adapters.py` in an environment that has mteb; a task of two documents, without a download."""

from datasets import Dataset
from mteb.models.models_protocols import SearchProtocol

import xtr_tf
from xtr_tf.adapters.mteb import XTRModel

CORPUS = [
    {"id": "baikal", "title": "Baikal", "text": "Baikal is deep."},
    {"id": "nile", "title": "", "text": "The Nile is long."},
]
QUERIES = [{"id": "q1", "text": "How deep is Baikal?"}, {"id": "q2", "text": "How long is the Nile?"}]

model = XTRModel(xtr_tf.load())
assert isinstance(model, SearchProtocol)
assert model.mteb_model_meta.name == "xtr-tf/mxtr_tiny"
model.index(
    Dataset.from_list(CORPUS), task_metadata=None, hf_split="test", hf_subset="default", encode_kwargs={}
)
found = model.search(
    Dataset.from_list(QUERIES),
    task_metadata=None,
    hf_split="test",
    hf_subset="default",
    top_k=2,
    encode_kwargs={},
)
assert {query: max(scores, key=scores.get) for query, scores in found.items()} == {
    "q1": "baikal",
    "q2": "nile",
}
ranked = model.search(
    Dataset.from_list(QUERIES), top_k=1, top_ranked={"q1": ["nile", "baikal"], "q2": ["nile"]}
)
assert {query: list(scores) for query, scores in ranked.items()} == {"q1": ["baikal"], "q2": ["nile"]}
print("right")
