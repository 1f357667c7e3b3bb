"""Requests that a server runs before a version takes traffic, in TensorFlow Serving's own format.

The first run of a graph is optimised and allocates; nobody's request should wait for that. It takes
most of a second for each signature, though, and a server is ready only afterwards: what live traffic
asks for is warmed up, the signatures of tools are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import tensorflow as tf

from xtr_tf.export.reference_case import ReferenceCase

WARM_UP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
WARMED_UP = ("serving_default", "search")


def write_warm_up(directory: Path, model_name: str, cases: Iterable[ReferenceCase]) -> bool:
    """Writes `assets.extra/tf_serving_warmup_requests`.

    Args:
        directory: The version's directory.
        model_name: Under which it will be served.
        cases: Requests, of which those of `WARMED_UP` are taken; TensorFlow Serving allows 1,000.

    Returns:
        Whether it was written: not so without the package `tensorflow-serving-api`.
    """
    try:
        from tensorflow_serving.apis import predict_pb2, prediction_log_pb2
    except ImportError:
        return False
    file = directory / WARM_UP_FILE
    file.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(file)) as writer:
        for case in cases:
            if case.signature not in WARMED_UP:
                continue
            request = predict_pb2.PredictRequest()
            request.model_spec.name = model_name
            request.model_spec.signature_name = case.signature
            for name, value in case.inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
            writer.write(log.SerializeToString())
    return True
