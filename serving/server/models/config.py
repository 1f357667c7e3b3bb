"""Which models and versions to serve, in TensorFlow Serving's file format.

Reads and checks configurations. Knows nothing about what is on disk or loaded.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from serving.server.protos import model_server_config_pb2
from serving.server.status import RequestError, invalid_argument
from xtr_tf.errors import InputError

_PLATFORM = "tensorflow"
#: The error for a base path such as `gs://bucket/model`.
OBJECT_STORE = (
    "this server reads models from a file system; mount the bucket, or copy versions from it with "
    "serving/tf_serving/fetch_versions.sh."
)


@dataclasses.dataclass(frozen=True)
class VersionPolicy:
    """Which of the versions on disk to serve.

    Attributes:
        latest: How many of the highest versions to serve. Ignored if `every` or `specific` is set.
        every: Whether to serve all versions.
        specific: The versions to serve.
    """

    latest: int = 1
    every: bool = False
    specific: tuple[int, ...] = ()

    def choose(self, versions: Iterable[int], broken: Iterable[int] = ()) -> list[int]:
        """Returns the wanted versions, lowest first.

        Args:
            versions: The versions on disk.
            broken: The versions that could not be loaded. `latest` skips them, so that a model keeps
                answering if its newest version is broken. The other policies have no fallback.
        """
        found = sorted(set(versions))
        if self.specific:
            return [version for version in found if version in self.specific]
        if self.every:
            return found
        sound = [version for version in found if version not in set(broken)]
        return sound[-self.latest :]


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """One model.

    Attributes:
        name: Name of the model in requests.
        base_path: Directory with one subdirectory per version, named by number.
        policy: Which versions to serve.
        labels: Names of versions, such as `{"stable": 1, "canary": 2}`.
    """

    name: str
    base_path: Path
    policy: VersionPolicy = VersionPolicy()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)


def read_model_configs(file: Path) -> list[ModelConfig]:
    """Reads a `tensorflow.serving.ModelServerConfig` in text format.

    Args:
        file: The file to read.

    Returns:
        One configuration per model.

    Raises:
        InputError: The file has another format, or its configuration is invalid.
    """
    message = model_server_config_pb2.ModelServerConfig()
    try:
        text_format.Parse(file.read_text(), message)
        return model_configs_from_proto(message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise InputError(
            f"The model config file is not a ModelServerConfig in text format ({error}). Received: {file}."
        ) from None
    except RequestError as error:
        raise InputError(f"{error.message} Received: {file}.") from None


def model_configs_from_proto(message: Any) -> list[ModelConfig]:
    """Checks a `tensorflow.serving.ModelServerConfig`.

    Args:
        message: The message.

    Returns:
        One configuration per model.

    Raises:
        RequestError: INVALID_ARGUMENT, with TensorFlow Serving's message.
    """
    if message.WhichOneof("config") != "model_config_list":
        raise invalid_argument(
            "ServerModelConfig type not supported by HandleReloadConfigRequest."
            " Only ModelConfigList is currently supported"
        )
    configs = [_model_config(config) for config in message.model_config_list.config]
    names = [config.name for config in configs]
    for name in names:
        if names.count(name) > 1:
            raise invalid_argument(f"Illegal to list model {name} multiple times in config list")
    return configs


def is_object_store(path: str) -> bool:
    """Whether a base path is an address such as `gs://bucket/model`, which this server does not read."""
    # `Path` turns two slashes into one.
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path) is not None


def _model_config(message: Any) -> ModelConfig:
    if not message.name:
        raise invalid_argument("A model in the config list has no name.")
    if not message.model_platform:
        raise invalid_argument(
            "Illegal setting neither ModelServerConfig::model_type (deprecated)"
            " nor ModelServerConfig::model_platform."
        )
    if message.model_platform != _PLATFORM:
        raise invalid_argument(f"Model {message.name} requests unsupported platform {message.model_platform}")
    if is_object_store(message.base_path):
        raise invalid_argument(f"Model {message.name}: {OBJECT_STORE} base_path()={message.base_path}")
    base_path = Path(message.base_path)
    if not base_path.is_absolute():
        raise invalid_argument(
            f"Expected model {message.name} to have an absolute path or URI; got base_path()={base_path}"
        )
    return ModelConfig(
        message.name, base_path, _policy(message.model_version_policy), dict(message.version_labels)
    )


def _policy(message: Any) -> VersionPolicy:
    choice = message.WhichOneof("policy_choice")
    if choice == "specific":
        versions = tuple(sorted(set(message.specific.versions)))
        if not versions:
            raise invalid_argument("A specific version policy names no version.")
        return VersionPolicy(specific=versions)
    if choice == "all":
        return VersionPolicy(every=True)
    return VersionPolicy(latest=message.latest.num_versions or 1)
