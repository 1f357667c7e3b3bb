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
        inter_op_threads: Ops that may run at the same time; 0 for TensorFlow's choice.
        rewrite_graph: Whether Grappler optimises the graph before it runs, as in TensorFlow Serving. Calls
            then take some 3% less processor time, and the first call of a signature three to ten times as
            much.
        loading_threads: If not 0, the number of low-priority threads for loading and for background calls.
            All sessions with this option share them, and other calls never wait for them.
        spinning: Whether idle threads look for work for a while before they sleep. Useless if other
            processes need the cores.
    """

    intra_op_threads: int = 0
    inter_op_threads: int = 0
    rewrite_graph: bool = False
    loading_threads: int = 0
    spinning: bool = True

    def __post_init__(self) -> None:
        for name in ("intra_op_threads", "inter_op_threads", "loading_threads"):
            threads = getattr(self, name)
            if threads < 0:
                raise InputError(f"`{name}` must be zero or positive. Received: {threads}.")

    def serialize(self) -> bytes:
        """Returns the options as a serialised `tensorflow.ConfigProto`."""
        config = import_proto("tensorflow.core.protobuf.config_pb2").ConfigProto(
            intra_op_parallelism_threads=self.intra_op_threads,
            inter_op_parallelism_threads=self.inter_op_threads,
        )
        # A pool without a name belongs to the session; otherwise the first session would decide for all.
        pools = config.session_inter_op_thread_pool
        pools.add(num_threads=self.inter_op_threads, global_name="" if self.inter_op_threads else "calls")
        if self.loading_threads:
            pools.add(num_threads=self.loading_threads, global_name=f"loading-{self.loading_threads}")
        config.experimental.disable_thread_spinning = not self.spinning
        config.graph_options.rewrite_options.disable_meta_optimizer = not self.rewrite_graph
        # Otherwise Grappler optimises each function when it is first called, regardless of the setting
        # above, and a call that fails within a function leaks almost a kilobyte.
        config.graph_options.optimizer_options.do_function_inlining = True
        serialized: bytes = config.SerializeToString()
        return serialized


def background_run_options() -> bytes:
    """Returns the serialised `tensorflow.RunOptions` of a call on the threads for loading."""
    options = import_proto("tensorflow.core.protobuf.config_pb2").RunOptions(inter_op_thread_pool=1)
    serialized: bytes = options.SerializeToString()
    return serialized
