"""Replays a model's reference cases in a v1 Session: `python v1_session.py MODEL OP_LIBRARY...`."""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf

from xtr_tf.retriever.agreement import differences
from xtr_tf.retriever.reference_cases import read_reference
from xtr_tf.runtime.op_libraries import libraries_for


def main(directory: Path, libraries: list[str]) -> None:
    needed = libraries_for({"SentencepieceOp", "Scann>ScannSearchBatched"})
    for path in needed:
        if path.name in libraries:
            tf.load_op_library(str(path))
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], str(directory))
        for case in read_reference(directory).cases:
            signature = meta_graph.signature_def[case.signature]
            feeds = {signature.inputs[name].name: value for name, value in case.inputs.items()}
            fetches = {name: info.name for name, info in signature.outputs.items()}
            answer = session.run(fetches, feeds)
            assert differences(case, answer) == [], case.signature
    assert ("scann" in sys.modules) is False


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
