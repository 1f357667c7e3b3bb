"""Counts a program's operations and bytes with XLA's own cost analysis, which jaxlib offers to Python.

    python cost.py HLO_FILE

Runs in an environment with jaxlib, which TensorFlow does not need.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from jaxlib import xla_client


def main() -> None:
    """Prints `flops` and `bytes` as JSON."""
    module = xla_client._xla.hlo_module_from_text(Path(sys.argv[1]).read_text())
    costs = xla_client._xla.hlo_module_cost_analysis(xla_client.make_cpu_client(), module)
    print(json.dumps({"flops": costs["flops"], "bytes": costs["bytes accessed"]}))


if __name__ == "__main__":
    main()
