"""TensorFlow Serving's messages, imported without importing TensorFlow."""

from __future__ import annotations

from xtr_tf.runtime.protos import import_proto

tensor_pb2 = import_proto("tensorflow.core.framework.tensor_pb2")
types_pb2 = import_proto("tensorflow.core.framework.types_pb2")
error_codes_pb2 = import_proto("tensorflow.core.protobuf.error_codes_pb2")
get_model_metadata_pb2 = import_proto("tensorflow_serving.apis.get_model_metadata_pb2")
get_model_status_pb2 = import_proto("tensorflow_serving.apis.get_model_status_pb2")
model_management_pb2 = import_proto("tensorflow_serving.apis.model_management_pb2")
model_pb2 = import_proto("tensorflow_serving.apis.model_pb2")
predict_pb2 = import_proto("tensorflow_serving.apis.predict_pb2")
prediction_log_pb2 = import_proto("tensorflow_serving.apis.prediction_log_pb2")
model_server_config_pb2 = import_proto("tensorflow_serving.config.model_server_config_pb2")

# Not used by name, but their import makes the services known to gRPC reflection.
import_proto("tensorflow_serving.apis.prediction_service_pb2")
import_proto("tensorflow_serving.apis.model_service_pb2")
