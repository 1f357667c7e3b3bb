"""Run by `test_adapters.py` in an environment that has langchain-core."""

import xtr_tf
from xtr_tf.adapters.langchain import XTRRetriever

PASSAGES = [
    {"id": "baikal", "title": "Baikal", "text": "Baikal is deep."},
    {"id": "nile", "text": "The Nile is long."},
]

retriever = XTRRetriever(index=xtr_tf.load().index(PASSAGES, progress=False), parameters={"top_k": 1})
[document] = retriever.invoke("How deep is Baikal?")
assert (document.id, document.page_content) == ("baikal", "Baikal is deep.")
assert set(document.metadata) == {"score", "title", "language"}
[[same], [other]] = retriever.batch(["How deep is Baikal?", "How long is the Nile?"])
assert (same.id, other.id) == ("baikal", "nile")
chain = retriever | (lambda found: found[0].page_content)
assert chain.invoke("How long is the Nile?") == "The Nile is long."
print("right")
