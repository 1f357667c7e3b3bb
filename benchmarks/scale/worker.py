"""The steps of `make bench-scale` that are measured in separate processes; each prints a line of JSON."""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from xtr_tf.config.retrieval import IndexConfig, SearchDefaults

WORKERS = 2


def build(vectors: str, index: str) -> dict[str, float]:
    """Builds an index with Beam's direct runner, two processes of one thread each."""
    from xtr_tf.index.parts import build_in_parts
    from xtr_tf.vectors.beam import BeamRunner

    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    runner = BeamRunner(["--direct_running_mode=multi_processing", f"--direct_num_workers={WORKERS}"])
    started = time.perf_counter()
    build_in_parts(vectors, index, IndexConfig(kind="scann"), runner)
    seconds = time.perf_counter() - started
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "seconds": seconds,
        "cpu_seconds": sum(used.ru_utime + used.ru_stime for used in usage),
        "peak_gb": max(used.ru_maxrss for used in usage) * 1024 / 1e9,
    }


def export(encoder: str, vectors: str, index: str, out: str, partitions: str) -> dict[str, float]:
    """Exports an index as one model, or as partitions, two at a time."""
    started = time.perf_counter()
    defaults = SearchDefaults(k_prime=1000, top_k=10)
    if partitions == "1":
        from xtr_tf.retriever.assembly import assemble_retriever
        from xtr_tf.retriever.export import export_retriever

        assembly = assemble_retriever(encoder, vectors, index, defaults)
        export_retriever(assembly.retriever, out, assembly.card)
    else:
        from xtr_tf.retriever.export_partitions import PartitionExport, export_partitions

        job = PartitionExport(encoder, vectors, index, int(partitions), defaults)
        export_partitions(job, Path(out), processes=WORKERS)
    return {"seconds": time.perf_counter() - started}


if __name__ == "__main__":
    print(json.dumps({"build": build, "export": export}[sys.argv[1]](*sys.argv[2:])))
