"""Compiles a program for a TPU with the TPU's own compiler, which the wheel `libtpu` brings. Needs no TPU.

    python tpu_compiler.py TOPOLOGY HLO_FILE

Runs in an environment with jax and libtpu. A topology is written as `v5e:2x2`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

# Only the compiler is wanted: no device is looked for, and Google's metadata service is not asked.
os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost"}

import numpy as np
from jax.experimental import topologies
from jaxlib import xla_client


def main() -> None:
    """Prints `hbm`, the bytes of device memory that the program takes, and whether it `fits`, as JSON."""
    name = sys.argv[1]
    # The two cores of a v4 chip are one device to TensorFlow, with all of the chip's memory.
    options = {"chip_config_name": "megacore"} if name.startswith("v4:") else {}
    device = topologies.get_topology_desc(platform="tpu", topology_name=name, **options).devices[0]
    module = xla_client._xla.hlo_module_from_text(Path(sys.argv[2]).read_text())
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    program = xla_client._xla.mlir.xla_computation_to_mlir_module(computation).encode()
    alone = xla_client.CompileOptions()
    alone.num_replicas = alone.num_partitions = 1
    alone.device_assignment = xla_client.DeviceAssignment.create(np.array([[device.id]]))
    try:
        compiled = device.client.compile(program, xla_client.DeviceList((device,)), alone)
    except xla_client.XlaRuntimeError as error:
        used = re.search(r"Used ([\d.]+)G of [\d.]+G hbm", str(error))
        if not used:
            raise
        print(json.dumps({"hbm": float(used[1]) * 2**30, "fits": False}))
        return
    memory = compiled.get_compiled_memory_stats()
    kept = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    code = memory.generated_code_size_in_bytes
    print(json.dumps({"hbm": kept + memory.temp_size_in_bytes + code, "fits": True}))


if __name__ == "__main__":
    main()
