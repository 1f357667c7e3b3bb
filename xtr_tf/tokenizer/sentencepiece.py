"""tf.text's SentencePiece tokenizer, with a model that outlives TensorFlow's kernel cache.

Knows how the model is held; what is tokenised, and to which length, is the `Tokenizer`'s.
"""

from __future__ import annotations

import hashlib

import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer


class SharedModel(tf.saved_model.experimental.TrackableResource):
    """A SentencePiece model in TensorFlow's resource manager, under its content's own name.

    tf.text creates it without a name: such a resource belongs to the kernel that made it, and goes
    when TensorFlow clears its cache of kernels, which setting a seed or making a strategy does. Under
    a name it stays; and since the name is the content's hash, tokenizers of one model share it.

    Args:
        model: The content of a `.model` file.
    """

    def __init__(self, model: bytes) -> None:
        super().__init__()
        self._model = model
        self._shared_name = f"sentencepiece_{hashlib.sha256(model).hexdigest()}"
        _ = self.resource_handle  # Created now, so that a bad model fails here.

    def _create_resource(self) -> tf.Tensor:
        return gen_sentencepiece_tokenizer.sentencepiece_op(model=self._model, shared_name=self._shared_name)


class SentencePiece(tf_text.SentencepieceTokenizer):
    """`tf_text.SentencepieceTokenizer` giving int32 ids, on a `SharedModel`.

    Args:
        model: The content of a `.model` file.
        add_eos: Whether texts end in the model's end-of-sequence id.
    """

    def __init__(self, model: bytes, add_eos: bool = False) -> None:
        # The parent's own initialiser would read the model a second time (1.3 s for mT5's).
        super(tf_text.SentencepieceTokenizer, self).__init__()
        self.out_type = tf.int32
        self.nbest_size, self.alpha, self.return_nbest = 0, 1.0, False
        self.reverse, self.add_bos, self.add_eos = False, False, add_eos
        self._model_resource = SharedModel(model)
