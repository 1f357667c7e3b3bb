"""The worker side of the benchmark: times one engine on command. Runs in both environments.

A worker reads one JSON command per line from standard input and answers with one line. Between
commands it sleeps, so that the other engine has the machine to itself.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np

Encode = Callable[[np.ndarray], np.ndarray]


def serve(encode: Encode, versions: str) -> None:
    """Answers commands until standard input ends.

    Commands: `{"batches": FILE, "clock": "wall" or "cpu", "keep": FILE or null}` encodes every batch
    of an `.npz` file, in order, and answers with the seconds of each; `keep` saves the vectors of the
    first.

    Args:
        encode: Maps `[batch, length]` int32 ids to `[batch, length, dim]` vectors, in memory.
        versions: The engine's versions, for the report.
    """
    print(json.dumps({"versions": versions}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        with np.load(command["batches"]) as file:
            batches = [file[name] for name in file.files]
        clock = {"wall": time.perf_counter, "cpu": time.process_time}[command["clock"]]
        seconds = []
        for batch in batches:
            start = clock()
            vectors = encode(batch)
            seconds.append(clock() - start)
            if command["keep"] and len(seconds) == 1:
                np.save(command["keep"], vectors)
        print(json.dumps({"seconds": seconds}), flush=True)
