"""Run by `test_adapters.py` in an environment that has llama-index-core."""

from llama_index.core import Settings
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer

import xtr_tf
from xtr_tf.adapters.llama_index import XTRRetriever

PASSAGES = [
    {"id": "baikal", "title": "Baikal", "text": "Baikal is deep."},
    {"id": "nile", "text": "The Nile is long."},
]

Settings.llm = MockLLM()  # the library's own stand-in; this test uses no language model

retriever = XTRRetriever(xtr_tf.load().index(PASSAGES, progress=False), top_k=1)
[found] = retriever.retrieve("How deep is Baikal?")
assert (found.node.node_id, found.node.text) == ("baikal", "Baikal is deep.")
assert found.node.metadata == {"title": "Baikal", "language": "und"}
assert 0 < found.score <= 1
synthesizer = get_response_synthesizer(response_mode=ResponseMode.NO_TEXT)
answer = RetrieverQueryEngine(retriever, synthesizer).query("How long is the Nile?")
assert [node.node.node_id for node in answer.source_nodes] == ["nile"]
print("right")
