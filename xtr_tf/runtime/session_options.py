"""How a session may use the machine."""

from __future__ import annotations

import dataclasses

from xtr_tf.errors import InputError
from xtr_tf.runtime.protos import import_proto


@dataclasses.dataclass(frozen=True)
class SessionOptions:
    """Threads and graph rewriting of one session.

    Attributes:
        intra_op_threads: Threads that one op may use; 0 for TensorFlow's choice, all cores.
        inter_op_threads: Ops that may run at the same time; likewise.
        rewrite_graph: Whether the graph is optimised as a whole before it runs. A signature's function
            is optimised anyway when it is first called; without this, a model loads in half the time.
    """

    intra_op_threads: int = 0
    inter_op_threads: int = 0
    rewrite_graph: bool = True

    def __post_init__(self) -> None:
        for name in ("intra_op_threads", "inter_op_threads"):
            threads = getattr(self, name)
            if threads < 0:
                raise InputError(f"`{name}` must be zero (all cores) or positive. Received: {threads}.")

    def serialize(self) -> bytes:
        """Returns the options as a serialised `tensorflow.ConfigProto`."""
        config = import_proto("tensorflow.core.protobuf.config_pb2").ConfigProto(
            intra_op_parallelism_threads=self.intra_op_threads,
            inter_op_parallelism_threads=self.inter_op_threads,
            # Pools are per session: otherwise the first session of a process decides for all.
            use_per_session_threads=bool(self.inter_op_threads),
        )
        config.graph_options.rewrite_options.disable_meta_optimizer = not self.rewrite_graph
        serialized: bytes = config.SerializeToString()
        return serialized
