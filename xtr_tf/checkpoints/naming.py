"""What each family of checkpoints calls the encoder's tensors, as data.

Our names are T5X's, such as `encoder/layers_0/attention/query/kernel`. A table has one line for each kind of
tensor; `{i}` stands for the number of a block. Matrices of Hugging Face are transposed, because PyTorch
stores a linear layer as [out, in]; Mesh-TensorFlow and T5X store [in, out] as we do.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Rule:
    """One kind of tensor.

    Attributes:
        foreign: The name in the checkpoint, `{i}` for the number of the block.
        ours: Our name, `{i}` for the number of the block.
        transposed: Whether the checkpoint stores the matrix transposed.
        alias: Whether this is a second name of a tensor, used only if the first is absent.
    """

    foreign: str
    ours: str
    transposed: bool = False
    alias: bool = False


@dataclasses.dataclass(frozen=True)
class Naming:
    """The names of one family of checkpoints.

    Attributes:
        title: The family's name in messages.
        rules: Every tensor that the encoder needs.
        dropped: Patterns of names that a checkpoint may contain and the encoder does not need.
    """

    title: str
    rules: tuple[Rule, ...]
    dropped: tuple[str, ...]

    def find(self, foreign: str) -> Rule | None:
        """Returns the rule for a name with the block's number filled in, or None."""
        for rule in self.rules:
            if match := re.fullmatch(_pattern(rule.foreign), foreign):
                number = match.groupdict().get("i")
                ours = rule.ours if number is None else rule.ours.format(i=int(number))
                return dataclasses.replace(rule, foreign=foreign, ours=ours)
        return None

    def drops(self, foreign: str) -> bool:
        """Returns whether a name is known and not needed."""
        return any(re.fullmatch(pattern, foreign) for pattern in self.dropped)

    def foreign_names(self, ours: Iterable[str]) -> dict[str, Rule]:
        """Finds the rule of each of our names, for writing a checkpoint of this family."""
        found = {}
        for name in ours:
            for rule in self.rules:
                if not rule.alias and (match := re.fullmatch(_pattern(rule.ours), name)):
                    found[name] = dataclasses.replace(
                        rule, foreign=rule.foreign.format(**match.groupdict()), ours=name
                    )
        return found


def _pattern(template: str) -> str:
    return re.escape(template).replace(r"\{i\}", r"(?P<i>\d+)")


_LAYER = "encoder/layers_{i}"
_ATTENTION = {"q": "query", "k": "key", "v": "value", "o": "out"}
_FEED_FORWARD = ("wi", "wi_0", "wi_1", "wo")

HUGGING_FACE = Naming(
    "Hugging Face",
    rules=(
        Rule("shared.weight", "token_embedder/embedding"),
        Rule("encoder.embed_tokens.weight", "token_embedder/embedding", alias=True),
        Rule(
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            "encoder/relpos_bias/rel_embedding",
            transposed=True,
        ),
        Rule("encoder.block.{i}.layer.0.layer_norm.weight", f"{_LAYER}/pre_attention_layer_norm/scale"),
        *(
            Rule(
                f"encoder.block.{{i}}.layer.0.SelfAttention.{theirs}.weight",
                f"{_LAYER}/attention/{ours}/kernel",
                transposed=True,
            )
            for theirs, ours in _ATTENTION.items()
        ),
        Rule("encoder.block.{i}.layer.1.layer_norm.weight", f"{_LAYER}/pre_mlp_layer_norm/scale"),
        *(
            Rule(
                f"encoder.block.{{i}}.layer.1.DenseReluDense.{name}.weight",
                f"{_LAYER}/mlp/{name}/kernel",
                transposed=True,
            )
            for name in _FEED_FORWARD
        ),
        Rule("encoder.final_layer_norm.weight", "encoder/encoder_norm/scale"),
        Rule("2_Dense/linear.weight", "projection/kernel", transposed=True),
    ),
    dropped=(r"decoder\..*", r"lm_head\.weight"),
)

MESH_TENSORFLOW = Naming(
    "Mesh-TensorFlow",
    rules=(
        Rule("shared/embedding", "token_embedder/embedding"),
        Rule(
            "encoder/block_000/layer_000/SelfAttention/relative_attention_bias",
            "encoder/relpos_bias/rel_embedding",
        ),
        *(
            Rule(f"encoder/block_{{i}}/layer_000/SelfAttention/{theirs}", f"{_LAYER}/attention/{ours}/kernel")
            for theirs, ours in _ATTENTION.items()
        ),
        *(
            Rule(f"encoder/block_{{i}}/layer_001/DenseReluDense/{name}/kernel", f"{_LAYER}/mlp/{name}/kernel")
            for name in _FEED_FORWARD
        ),
        # Checkpoints since 2020 call it `rms_norm`.
        *(
            Rule(foreign, ours)
            for norm in ("layer_norm", "rms_norm")
            for foreign, ours in (
                (f"encoder/block_{{i}}/layer_000/{norm}/scale", f"{_LAYER}/pre_attention_layer_norm/scale"),
                (f"encoder/block_{{i}}/layer_001/{norm}/scale", f"{_LAYER}/pre_mlp_layer_norm/scale"),
            )
        ),
        Rule("encoder/final_layer_norm/scale", "encoder/encoder_norm/scale"),
        Rule("encoder/rms_norm/scale", "encoder/encoder_norm/scale"),
    ),
    dropped=(r"global_step", r".*_slot_\w+", r"decoder/.*"),
)

T5X = Naming(
    "T5X",
    rules=tuple(
        Rule(f"target/{name}", name)
        for name in (
            "token_embedder/embedding",
            "encoder/relpos_bias/rel_embedding",
            *(f"{_LAYER}/attention/{name}/kernel" for name in _ATTENTION.values()),
            *(f"{_LAYER}/mlp/{name}/kernel" for name in _FEED_FORWARD),
            f"{_LAYER}/pre_attention_layer_norm/scale",
            f"{_LAYER}/pre_mlp_layer_norm/scale",
            "encoder/encoder_norm/scale",
        )
    ),
    dropped=(r"version", r"state/.*", r"target/decoder/.*"),
)
