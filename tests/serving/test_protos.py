"""The services are described byte for byte as TensorFlow Serving's own package describes them."""

from __future__ import annotations

import ast

import pytest
from google.protobuf import descriptor_pool

from serving.server import protos
from xtr_tf.runtime.protos import package_directory


@pytest.mark.parametrize("service", [protos.PREDICTION_SERVICE, protos.MODEL_SERVICE])
def test_services_are_described_as_the_package_does(service: str) -> None:
    file = descriptor_pool.Default().FindServiceByName(service).file
    # Read, not imported: protobuf 4 and later refuse to run the module.
    module = package_directory("tensorflow_serving") / "apis" / f"{file.name.rpartition('/')[2][:-6]}_pb2.py"
    strings = [
        node.value for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Constant)
    ]
    compiled = max((text for text in strings if isinstance(text, str)), key=len).encode("latin1")
    assert file.serialized_pb == compiled


def test_the_package_may_be_imported_too_where_it_can_be(fresh_python) -> None:
    fresh_python(
        """
        import google.protobuf
        from serving.server import protos
        from xtr_tf.runtime.protos import import_proto
        if int(google.protobuf.__version__.split(".")[0]) < 4:
            module = import_proto("tensorflow_serving.apis.prediction_service_pb2")
            assert module.DESCRIPTOR.services_by_name["PredictionService"]
        import_proto("tensorflow_serving.apis.prediction_service_pb2_grpc")
        """
    )
