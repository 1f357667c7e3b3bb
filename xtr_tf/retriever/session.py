"""A retriever in this process that is called like an exported model: by signature, with plain values.

`RetrieverSession` replaces `SavedModelSession` if nothing was exported. Knows nothing about files.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from xtr_tf.errors import InputError
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.signatures import build_signatures
from xtr_tf.runtime.signature import Signature, TensorSpec
from xtr_tf.runtime.status import readable

# Building the graph of a signature takes as long as it saves in about sixty calls.
_CALLS_WITHOUT_GRAPH = 64
_EAGER_ASSERTION = re.compile(r"Expected .* to be true\. Summarized data: (.*)", re.DOTALL)


class RetrieverSession:
    """The signatures of a retriever. Many threads may call `run` at the same time.

    The first calls of a signature run op by op, so that the first answer does not wait for a graph. A
    signature that is called often gets its graph.

    Args:
        retriever: The retriever to call.

    Attributes:
        signatures: Inputs by name, as in `SavedModelSession`. Outputs are not described.

    Example:
        >>> RetrieverSession(retriever).run("search", {"query": ["highest mountain"]})["document_ids"]
    """

    def __init__(self, retriever: Retriever) -> None:
        self._functions = build_signatures(retriever)
        self._calls: Counter[str] = Counter()
        self.signatures = {name: _describe(name, function) for name, function in self._functions.items()}

    def run(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Runs one signature. See `SavedModelSession.run`.

        Args:
            signature: Name of the signature.
            inputs: Values by input name.

        Returns:
            Arrays by output name.

        Raises:
            InputError: If the inputs are invalid.
        """
        arrays = self.signatures[signature].check(inputs)
        tensors = {name: tf.constant(array) for name, array in arrays.items()}
        self._calls[signature] += 1
        function = self._functions[signature]
        call = function if self._calls[signature] > _CALLS_WITHOUT_GRAPH else function.python_function
        try:
            answer = call(**tensors)
        except tf.errors.InvalidArgumentError as error:
            raise InputError(_sentence(error.message)) from None
        return {name: tensor.numpy() for name, tensor in answer.items()}


def _describe(name: str, function: Any) -> Signature:
    """Returns the description of a traced function's inputs."""
    inputs = {}
    for spec in function.input_signature:
        dtype = np.dtype(object) if spec.dtype == tf.string else np.dtype(spec.dtype.as_numpy_dtype)
        inputs[spec.name] = TensorSpec(spec.name, dtype, tuple(spec.shape.as_list()), spec.name)
    parameters = inspect.signature(function.python_function).parameters.values()
    optional = {given.name for given in parameters if given.default is not inspect.Parameter.empty}
    return Signature(name, inputs, {}, frozenset(optional))


def _sentence(message: str) -> str:
    """Returns the message of a failed assertion, with or without a graph."""
    found = _EAGER_ASSERTION.search(message)
    if not found:
        return readable(message)
    words = [
        ast.literal_eval(line).decode() if line.startswith(("b'", 'b"')) else line
        for line in found[1].split("\n")
    ]
    sentence = " ".join(words).strip()
    return sentence if sentence.endswith(".") else f"{sentence}."
