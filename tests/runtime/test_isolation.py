"""The runtime and Python TensorFlow: independent of each other, and together in either order."""

from __future__ import annotations

import sys

from xtr_tf.runtime import SavedModelSession
from xtr_tf.runtime.protos import import_proto


def test_a_model_runs_without_python_tensorflow(toy_model, fresh_python):
    fresh_python(
        """
        import sys
        from xtr_tf.runtime import SavedModelSession

        with SavedModelSession(sys.argv[1]) as session:
            assert session.run("repeat", {"text": ["a"], "times": 2})["repeated"].tolist() == [b"a", b"a"]
        assert "tensorflow" not in sys.modules
        assert not any(name.startswith(("tensorflow.python", "keras", "scann")) for name in sys.modules)
        """,
        toy_model,
    )


def test_the_first_answer_comes_soon(toy_model, fresh_python):
    processor_seconds = float(
        fresh_python(
            """
            import sys, time
            from xtr_tf.runtime import SavedModelSession

            SavedModelSession(sys.argv[1]).run("multiply", {"vectors": [[1.0, 2.0]]})
            print(time.process_time())
            """,
            toy_model,
        )
    )
    assert processor_seconds < 4  # measured 1.1 on a quiet machine; importing TensorFlow costs 10


def test_tensorflow_can_be_imported_afterwards(toy_model, fresh_python):
    fresh_python(
        """
        import sys
        from xtr_tf.runtime import SavedModelSession
        from xtr_tf.runtime.protos import import_proto

        tensor_pb2 = import_proto("tensorflow.core.framework.tensor_pb2")
        session = SavedModelSession(sys.argv[1])
        before = session.run("multiply", {"vectors": [[1.0, 2.0]]})["product"]

        import tensorflow as tf
        import tensorflow.core.framework.tensor_pb2 as real_pb2
        from tensorflow.core.protobuf import config_pb2

        assert tf.__spec__ is not None and tf.add(1, 2).numpy() == 3
        assert real_pb2.TensorProto is tensor_pb2.TensorProto
        assert isinstance(tf.make_tensor_proto([1.0]), tensor_pb2.TensorProto)
        assert config_pb2.ConfigProto is tf.compat.v1.ConfigProto
        loaded = tf.saved_model.load(sys.argv[1])
        after = loaded.signatures["multiply"](vectors=tf.constant([[1.0, 2.0]]))["product"].numpy()
        assert (before == after).all()
        assert (before == session.run("multiply", {"vectors": [[1.0, 2.0]]})["product"]).all()
        """,
        toy_model,
    )


def test_tensorflow_may_have_been_imported_before(toy_model):
    import tensorflow as tf

    tensor_pb2 = import_proto("tensorflow.core.framework.tensor_pb2")
    assert isinstance(tf.make_tensor_proto(1), tensor_pb2.TensorProto)
    with SavedModelSession(toy_model) as session:
        answer = session.run("multiply", {"vectors": [[1.0, 2.0]]})["product"]
    multiply = tf.saved_model.load(str(toy_model)).signatures["multiply"]
    assert (answer == multiply(vectors=tf.constant([[1.0, 2.0]]))["product"].numpy()).all()
    assert sys.modules["tensorflow"] is tf


def test_serving_protos_need_no_tensorflow(fresh_python):
    fresh_python(
        """
        import sys
        from xtr_tf.runtime.protos import import_proto

        predict_pb2 = import_proto("tensorflow_serving.apis.predict_pb2")
        tensor_pb2 = import_proto("tensorflow.core.framework.tensor_pb2")
        request = predict_pb2.PredictRequest()
        request.inputs["query"].CopyFrom(tensor_pb2.TensorProto(dtype=7, string_val=[b"a"]))
        assert predict_pb2.PredictRequest.FromString(request.SerializeToString()) == request
        assert "tensorflow" not in sys.modules
        """
    )


def test_a_failed_import_leaves_nothing_behind(fresh_python):
    fresh_python(
        """
        import sys
        from xtr_tf.runtime.protos import import_proto

        try:
            import_proto("tensorflow.core.framework.absent_pb2")
        except ModuleNotFoundError:
            pass
        assert "tensorflow" not in sys.modules
        """
    )


def test_another_thread_may_import_tensorflow_meanwhile(fresh_python):
    """TensorFlow's import begins in the middle of a proto's: both threads get the real thing."""
    fresh_python(
        """
        import sys, threading, time
        from xtr_tf.runtime.protos import import_proto

        imported = []

        def import_tensorflow():
            import tensorflow
            imported.append(tensorflow)

        other = threading.Thread(target=import_tensorflow)

        def meanwhile(event, arguments):
            if event == "exec" and arguments[0].co_filename.endswith("/tensor_pb2.py") and not other.ident:
                other.start()
                while not imported and not hasattr(sys.modules.get("tensorflow"), "__file__"):
                    time.sleep(0.001)

        sys.addaudithook(meanwhile)
        protos = []
        names = ["core.framework.tensor_pb2", "core.protobuf.config_pb2", "core.example.example_pb2"]
        threads = [
            threading.Thread(target=lambda name=name: protos.append(import_proto(f"tensorflow.{name}")))
            for name in names * 4
        ]
        for thread in threads:
            thread.start()
        for thread in (*threads, other):
            thread.join()

        assert len(protos) == len(threads) and len(set(protos)) == len(names)
        (tf,) = imported
        assert tf is sys.modules["tensorflow"] and tf.add(1, 2).numpy() == 3
        tensor_pb2 = import_proto("tensorflow.core.framework.tensor_pb2")
        assert isinstance(tf.make_tensor_proto(1), tensor_pb2.TensorProto)
        """
    )
