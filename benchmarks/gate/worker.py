"""Makes exports in one process, under the limits set by its environment: `worker.py WORK OUT INDEX...`.

Prints a line of JSON per export: where it is, or why the gate refused it. If an index is named again, it is
exported again with the functions that were traced before.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from xtr_tf.config.retrieval import SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.retriever import export as exporter
from xtr_tf.retriever.assembly import assemble_retriever
from xtr_tf.retriever.signatures import build_signatures

DEFAULTS = SearchDefaults(k_prime=100, top_k=10)


def main(work: Path, out: Path, indexes: list[str]) -> None:
    """Exports one index after the other."""
    assembled: dict[str, Any] = {}
    signatures: dict[int, dict[str, Any]] = {}
    exporter.build_signatures = lambda retriever: signatures[id(retriever)]
    for number, index in enumerate(indexes):
        if index not in assembled:
            encoder = work / index.partition("-")[0]
            assembled[index] = assemble_retriever(
                encoder / "encoder", encoder / "vectors", work / index, DEFAULTS
            )
            retriever = assembled[index].retriever
            signatures[id(retriever)] = build_signatures(retriever)
        try:
            made = exporter.export_retriever(
                assembled[index].retriever, out / f"{number}-{index}", assembled[index].card
            )
            answer = {"index": index, "directory": str(made.directory)}
        except InputError as error:
            answer = {"index": index, "refused": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
