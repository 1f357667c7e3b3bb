"""A SavedModel, loaded and run by TensorFlow's C library.

The loader is the one inside TensorFlow Serving, so what runs here runs there. Nothing in this
package imports Python TensorFlow: a process is ready in about a second.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.errors import InputError
from xtr_tf.runtime import tensors
from xtr_tf.runtime.c_library import Output, c_library, checked_status, load_op_library
from xtr_tf.runtime.memory import release_free_memory
from xtr_tf.runtime.op_libraries import libraries_for, ops_of
from xtr_tf.runtime.priority import at_low_priority
from xtr_tf.runtime.saved_model_file import SERVING_TAG, read_meta_graph
from xtr_tf.runtime.session_options import SessionOptions, background_run_options
from xtr_tf.runtime.signature import Signature, TensorSpec
from xtr_tf.runtime.status import StatusError


class SavedModelSession:
    """A loaded model. It can be run from many threads at once.

    Args:
        directory: The SavedModel's directory (one version).
        op_libraries: Shared libraries to load first; by default those that the model's ops need.
        options: Threads to use.

    Example:
        >>> with SavedModelSession("models/atlas/1") as session:
        ...     session.run("serving_default", {"query": ["highest mountain"]})["document_ids"]

    Raises:
        InputError: The directory has no SavedModel, or one that this library cannot load.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        op_libraries: Sequence[str | os.PathLike[str]] | None = None,
        options: SessionOptions | None = None,
    ) -> None:
        self.directory = Path(directory)
        self._session: int | None = None
        self._graph: int | None = None
        self._background: int | None = None
        self._running = 0
        self._idle = threading.Condition()
        self._library = c_library()
        meta_graph = read_meta_graph(self.directory)
        if op_libraries is None:
            op_libraries = libraries_for(ops_of(meta_graph.graph_def))
        self.op_libraries = [Path(path) for path in op_libraries]
        for path in self.op_libraries:
            load_op_library(str(path))
        self._graph = self._library.TF_NewGraph()
        try:
            self._load(options or SessionOptions())
            self._read_signatures(meta_graph)
        except BaseException:
            self.close()
            raise
        del meta_graph
        release_free_memory()

    def run(
        self,
        signature: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        background: bool = False,
    ) -> dict[str, np.ndarray]:
        """Runs one signature.

        Args:
            signature: Name of the signature.
            inputs: A value for every input without a default: an array of exactly its dtype, or Python
                numbers, strings and lists of them.
            outputs: Names of the outputs to compute and return; all by default.
            background: Whether to run on the threads for loading (see `SessionOptions.loading_threads`).

        Returns:
            Arrays by name of the output; strings are `bytes` objects.

        Raises:
            InputError: An input is missing, unknown or of the wrong dtype or shape, or the model
                refused its value.
            StatusError: TensorFlow failed otherwise.
        """
        definition = self.signatures.get(signature)
        if definition is None:
            raise InputError(
                f"The model's signatures are {sorted(self.signatures)}. Received: signature {signature!r}."
            )
        return self.run_checked(definition, definition.check(inputs), outputs, background)

    def run_checked(
        self,
        signature: Signature,
        arrays: Mapping[str, np.ndarray],
        outputs: Sequence[str] | None = None,
        background: bool = False,
    ) -> dict[str, np.ndarray]:
        """Runs one signature on arrays that are already checked; see `run`.

        Args:
            signature: The signature.
            arrays: The result of `Signature.check`.
            outputs: Names of outputs to fetch; all if None.
            background: Whether to run on the threads of low priority.

        Returns:
            Arrays by the names of outputs.

        Raises:
            StatusError: The model refused the inputs, or failed.
        """
        wanted = signature.outputs if outputs is None else {n: signature.outputs[n] for n in outputs}
        run_options = self._background if background else None
        with self._in_use() as session:
            return self._run(session, signature, arrays, wanted, run_options)

    def defaults(self, signature: str) -> dict[str, np.ndarray]:
        """Returns the default values of the inputs that a request may leave out.

        Args:
            signature: Name of the signature.

        Returns:
            Arrays by name of the input.
        """
        definition = self.signatures[signature]
        optional = {name: definition.inputs[name] for name in sorted(definition.optional)}
        with self._in_use() as session:
            return self._run(session, definition, {}, optional) if optional else {}

    def close(self, cancel: bool = False) -> None:
        """Waits for running calls, then frees the model. Later calls raise `InputError`.

        Args:
            cancel: Whether to make running calls fail as soon as their current op has ended.
        """
        with self._idle:
            session, self._session = self._session, None
            graph, self._graph = self._graph, None
            if session is not None and cancel:
                self._end_calls(session)
            self._idle.wait_for(lambda: self._running == 0)
        if session is not None:
            if not cancel:
                self._end_calls(session)
            with checked_status() as status:
                self._library.TF_DeleteSession(session, status)
        if graph is not None:
            self._library.TF_DeleteGraph(graph)
            if self._background is not None:
                self._library.TF_DeleteBuffer(self._background)
            release_free_memory()

    def __enter__(self) -> SavedModelSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        # When the interpreter ends, the process's memory goes anyway.
        if not sys.is_finalizing():
            self.close()

    def _load(self, options: SessionOptions) -> None:
        library = self._library
        config = options.serialize()
        if options.loading_threads:
            run_options = background_run_options()
            self._background = library.TF_NewBufferFromString(run_options, len(run_options))
        session_options = library.TF_NewSessionOptions()
        try:
            with checked_status() as status:
                library.TF_SetConfig(session_options, config, len(config), status)
            tags = (ctypes.c_char_p * 1)(SERVING_TAG.encode())
            with checked_status() as status:
                load = functools.partial(
                    library.TF_LoadSessionFromSavedModel,
                    *(session_options, self._background, os.fsencode(self.directory), tags, 1),
                    *(self._graph, None, status),
                )
                self._session = at_low_priority(load) if options.loading_threads else load()
        except StatusError as error:
            raise InputError(
                f"TensorFlow cannot load the model: {error.message.rstrip('.')}. Received: {self.directory}."
            ) from None
        finally:
            library.TF_DeleteSessionOptions(session_options)

    def _read_signatures(self, meta_graph: Any) -> None:
        # A name with leading underscores is the loader's own (`__saved_model_init_op`).
        self.signature_defs = {
            # A part of a message keeps the whole of it in memory; a copy does not.
            name: copy.deepcopy(definition)
            for name, definition in sorted(meta_graph.signature_def.items())
            if not name.startswith("__")
        }
        self.signatures = {
            name: Signature.from_proto(name, definition) for name, definition in self.signature_defs.items()
        }
        outputs = {
            (name, spec.tensor): self._output_of(spec)
            for name, signature in self.signatures.items()
            for spec in (*signature.inputs.values(), *signature.outputs.values())
        }
        # The same few combinations of inputs and outputs are used again and again. A cache that referred to
        # the session would keep the model in memory.
        self._endpoints = functools.lru_cache(maxsize=256)(functools.partial(_endpoints, outputs))

    def _output_of(self, spec: TensorSpec) -> Output:
        operation, _, index = spec.tensor.rpartition(":")
        handle = self._library.TF_GraphOperationByName(self._graph, operation.encode())
        if not handle:
            raise InputError(
                f"The model's signature names a tensor it does not have. Received: {spec.tensor}."
            )
        return Output(handle, int(index))

    def _end_calls(self, session: int) -> None:
        """Makes running and later calls of a session fail."""
        with checked_status() as status:
            self._library.TF_CloseSession(session, status)

    @contextmanager
    def _in_use(self) -> Iterator[int]:
        with self._idle:
            if self._session is None:
                raise InputError(f"The model has been closed; load it again. Received: {self.directory}.")
            self._running += 1
            session = self._session
        try:
            yield session
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def _run(
        self,
        session: int,
        signature: Signature,
        arrays: Mapping[str, np.ndarray],
        wanted: Mapping[str, TensorSpec],
        run_options: int | None = None,
    ) -> dict[str, np.ndarray]:
        fed = self._endpoints(signature.name, tuple(signature.inputs[name].tensor for name in arrays))
        fetched = self._endpoints(signature.name, tuple(spec.tensor for spec in wanted.values()))
        values = (ctypes.c_void_p * len(fed))()
        results = (ctypes.c_void_p * len(fetched))()
        try:
            for position, array in enumerate(arrays.values()):
                values[position] = tensors.to_tensor(array)
            with checked_status() as status:
                self._library.TF_SessionRun(
                    *(session, run_options),
                    *(fed, values, len(fed)),
                    *(fetched, results, len(fetched)),
                    *(None, 0, None, status),
                )
            return {name: tensors.to_array(result) for name, result in zip(wanted, results, strict=True)}
        finally:
            for value in filter(None, values):
                tensors.free_input(value)
            for result in filter(None, results):
                tensors.free_output(result)


def _endpoints(
    outputs: Mapping[tuple[str, str], Output], signature: str, tensors: tuple[str, ...]
) -> ctypes.Array[Output]:
    return (Output * len(tensors))(*(outputs[signature, tensor] for tensor in tensors))
