"""TensorFlow Serving's messages, imported without TensorFlow, and descriptions of its services.

The generated modules of the services, `prediction_service_pb2` and `model_service_pb2`, are too old to be
imported with protobuf 4 and later. gRPC reflection needs their descriptions, so they are built here.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool

from xtr_tf.runtime.protos import import_proto

tensor_pb2 = import_proto("tensorflow.core.framework.tensor_pb2")
types_pb2 = import_proto("tensorflow.core.framework.types_pb2")
error_codes_pb2 = import_proto("tensorflow.core.protobuf.error_codes_pb2")
classification_pb2 = import_proto("tensorflow_serving.apis.classification_pb2")
get_model_metadata_pb2 = import_proto("tensorflow_serving.apis.get_model_metadata_pb2")
get_model_status_pb2 = import_proto("tensorflow_serving.apis.get_model_status_pb2")
inference_pb2 = import_proto("tensorflow_serving.apis.inference_pb2")
model_management_pb2 = import_proto("tensorflow_serving.apis.model_management_pb2")
model_pb2 = import_proto("tensorflow_serving.apis.model_pb2")
predict_pb2 = import_proto("tensorflow_serving.apis.predict_pb2")
prediction_log_pb2 = import_proto("tensorflow_serving.apis.prediction_log_pb2")
regression_pb2 = import_proto("tensorflow_serving.apis.regression_pb2")
model_server_config_pb2 = import_proto("tensorflow_serving.config.model_server_config_pb2")

PREDICTION_SERVICE = "tensorflow.serving.PredictionService"
MODEL_SERVICE = "tensorflow.serving.ModelService"

# For each service: the file that declares it, and the request and response classes of its methods.
_SERVICES: dict[str, tuple[str, dict[str, tuple[Any, Any]]]] = {
    PREDICTION_SERVICE: (
        "tensorflow_serving/apis/prediction_service.proto",
        {
            "Classify": (
                classification_pb2.ClassificationRequest,
                classification_pb2.ClassificationResponse,
            ),
            "Regress": (regression_pb2.RegressionRequest, regression_pb2.RegressionResponse),
            "Predict": (predict_pb2.PredictRequest, predict_pb2.PredictResponse),
            "MultiInference": (inference_pb2.MultiInferenceRequest, inference_pb2.MultiInferenceResponse),
            "GetModelMetadata": (
                get_model_metadata_pb2.GetModelMetadataRequest,
                get_model_metadata_pb2.GetModelMetadataResponse,
            ),
        },
    ),
    MODEL_SERVICE: (
        "tensorflow_serving/apis/model_service.proto",
        {
            "GetModelStatus": (
                get_model_status_pb2.GetModelStatusRequest,
                get_model_status_pb2.GetModelStatusResponse,
            ),
            "HandleReloadConfigRequest": (
                model_management_pb2.ReloadConfigRequest,
                model_management_pb2.ReloadConfigResponse,
            ),
        },
    ),
}


def _describe(service: str) -> bytes:
    """Returns the serialised description of the file that declares a service, as protoc would write it."""
    name, methods = _SERVICES[service]
    package, _, short_name = service.rpartition(".")
    files = {message.DESCRIPTOR.file.name for messages in methods.values() for message in messages}
    file = descriptor_pb2.FileDescriptorProto(
        name=name, package=package, dependency=sorted(files), syntax="proto3"
    )
    file.options.cc_enable_arenas = True
    declared = file.service.add(name=short_name)
    for method, (request, response) in methods.items():
        declared.method.add(
            name=method,
            input_type=f".{request.DESCRIPTOR.full_name}",
            output_type=f".{response.DESCRIPTOR.full_name}",
        )
    serialized: bytes = file.SerializeToString()
    return serialized


for _service in _SERVICES:
    descriptor_pool.Default().AddSerializedFile(_describe(_service))
