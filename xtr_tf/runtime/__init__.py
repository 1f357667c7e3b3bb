"""Running SavedModels through TensorFlow's C library, without Python TensorFlow."""

from xtr_tf.runtime.memory import peak_resident_bytes as peak_resident_bytes
from xtr_tf.runtime.memory import release_free_memory as release_free_memory
from xtr_tf.runtime.memory import release_unused_code as release_unused_code
from xtr_tf.runtime.saved_model_session import SavedModelSession as SavedModelSession
from xtr_tf.runtime.session_options import SessionOptions as SessionOptions
from xtr_tf.runtime.signature import Signature as Signature
from xtr_tf.runtime.signature import TensorSpec as TensorSpec
from xtr_tf.runtime.status import InvalidArgumentError as InvalidArgumentError
from xtr_tf.runtime.status import StatusError as StatusError
