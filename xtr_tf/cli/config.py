"""`xtr-tf config`: show the configuration of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Show configurations.", no_args_is_help=True)

ConfigFile = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="YAML file; without it, the defaults.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one value, such as encoder.dropout=0."),
]


#: Configurations of other packages: a key that only their files have, and the function that reads them.
OTHER_KINDS: dict[str, Callable[[Path | None, list[str]], Any]] = {}


@app.command()
def show(file: ConfigFile = None, overrides: Overrides = None) -> None:
    """Print the resolved configuration of a run or a pipeline as YAML that can be used as a file."""
    import yaml

    from xtr_tf.config.loading import load_config, read_yaml, to_mapping

    content = read_yaml(file) if file else {}
    load: Callable[[Path | None, list[str]], Any] = load_config
    for key, other in OTHER_KINDS.items():
        load = other if key in content else load
    typer.echo(yaml.safe_dump(to_mapping(load(file, overrides or [])), sort_keys=False), nl=False)


@app.command()
def presets() -> None:
    """List the presets."""
    from xtr_tf.config.presets import RUN_PRESETS

    for name, preset in RUN_PRESETS.items():
        encoder = preset.encoder
        typer.echo(
            f"{name:16} {encoder.num_layers} layers, {encoder.model_dim} wide, "
            f"{encoder.num_heads} heads, {encoder.feed_forward}, vocabulary {encoder.vocabulary_size}"
        )
