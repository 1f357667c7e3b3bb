"""The entry point of containers in Vertex AI: TFX's own, extended by our artifact types.

`python -m tfx_pipeline.runners.vertex_container`. TFX's entry point expects the name of an artifact type that
is not its own to be the path of a Python class, which `xtr.TokenIndex` is not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tfx.orchestration.kubeflow.v2 import compiler_utils
from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_run_executor
from tfx.utils import name_utils

from tfx_pipeline.artifacts import OWN_TYPES


def main(arguments: Sequence[str]) -> None:
    """Runs one executor.

    Args:
        arguments: `--executor_class_path`, `--json_serialized_invocation_args` and Beam's options.
    """
    compiler_utils.TITLE_TO_CLASS_PATH.update(
        {kind.TYPE_NAME: name_utils.get_full_name(kind) for kind in OWN_TYPES}
    )
    kubeflow_v2_run_executor.main(kubeflow_v2_run_executor._parse_flags(list(arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
