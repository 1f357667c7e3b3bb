"""What the containers of a job in Vertex AI run: TFX's own entry point, told where our types are.

`python -m tfx_pipeline.runners.vertex_container`. By itself the entry point takes the name of an
artifact type that is not TFX's for the path of a Python class, which `xtr.TokenIndex` is not.
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
