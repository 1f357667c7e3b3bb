"""Loads a checked, frozen `RunConfig` from a YAML file, a preset and `--set` overrides.

Knows dataclasses and YAML, but not what the fields mean. Types come from the annotations of the dataclasses,
so that a new field needs no change here.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from xtr_tf.config.model import EncoderConfig
from xtr_tf.config.presets import ENCODER_PRESETS, RUN_PRESETS
from xtr_tf.config.training import RunConfig
from xtr_tf.errors import InputError

Config = TypeVar("Config")

_PRESETS: dict[type, Mapping[str, Any]] = {RunConfig: RUN_PRESETS, EncoderConfig: ENCODER_PRESETS}


def load_config(path: str | Path | None = None, overrides: Sequence[str] = ()) -> RunConfig:
    """Loads the configuration of a run.

    Args:
        path: A YAML file; the defaults if None. A top-level `preset` names the configuration to start from,
            and `encoder.preset` an encoder size.
        overrides: `key=value` pairs with dotted keys, applied after the file.

    Returns:
        The checked configuration.

    Raises:
        InputError: The file, a key or a value cannot be used.

    Example:
    ```python
    config = load_config("run.yaml", ["training.steps=100", "encoder.preset=mt5_small"])
    ```
    """
    return load_as(RunConfig, path, overrides)


def load_as(cls: type[Config], path: str | Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Loads a configuration of any class, see `load_config`.

    Args:
        cls: The class of the settings.
        path: A YAML file; the defaults if None.
        overrides: `key=value` pairs, applied after the file.

    Returns:
        The settings.

    Raises:
        InputError: The file, a key or a value cannot be used.
    """
    settings = {} if path is None else read_yaml(Path(path))
    for override in overrides:
        _apply_override(settings, override)
    return from_mapping(cls, settings)


def read_yaml(path: Path) -> dict[str, Any]:
    """Reads a YAML file whose top level is a mapping; raises `InputError` if it cannot be used."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)  # noqa: S506 (a SafeLoader)
    except FileNotFoundError:
        raise InputError(
            f"The configuration file does not exist; check its path. Received: {path}."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The configuration file cannot be read ({error}). Received: {path}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "malformed"
        raise InputError(f"{path} is not valid YAML{place}; fix it there. Received: {problem}.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(
            f"{path} must hold a mapping of sections such as `encoder:`. Received: {_kind(content)}."
        )
    return content


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML would take the last without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def from_mapping(cls: type[Config], settings: Mapping[str, Any]) -> Config:
    """Makes a frozen dataclass from nested mappings; refuses unknown keys and wrong types."""
    return _differ(cls(), settings, "", cls)


def to_mapping(config: Any) -> dict[str, Any]:
    """Returns the nested mapping that `from_mapping` turns back into an equal configuration."""
    return dataclasses.asdict(config, dict_factory=_lists)


def _lists(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in pairs}


def _differ(base: Config, settings: Mapping[str, Any], prefix: str, whole: type) -> Config:
    """Returns `base`, or the preset that `settings` names instead, with the other settings applied.

    `prefix` is the dotted path of `base` within the configuration `whole`, for messages.
    """
    changes = dict(settings)
    annotations = typing.get_type_hints(type(base))
    hints = {field.name: annotations[field.name] for field in dataclasses.fields(base)}  # type: ignore[arg-type]
    renamed = getattr(type(base), "RENAMED", {})
    known = list(hints)
    if presets := _PRESETS.get(type(base)):
        known.append("preset")
        if "preset" in changes:
            base = _choose(presets, changes.pop("preset"), f"{prefix}preset")
    for name, value in changes.items():
        if name in renamed:
            raise InputError(
                f"`{prefix}{name}` is now called `{prefix}{renamed[name]}`; rename it. "
                f"Received: {prefix}{name}."
            )
        if name not in hints:
            hint = _nearest(str(name), known, prefix, whole)
            raise InputError(f"Unknown configuration key{hint} Received: {prefix}{name}.")
        changes[name] = _convert(hints[name], value, getattr(base, name), f"{prefix}{name}", whole)
    return dataclasses.replace(base, **changes)  # type: ignore[type-var]


def _apply_override(settings: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not all(key.split(".")):
        raise InputError(
            f"An override has the form key=value, such as encoder.dropout=0. Received: {override}."
        )
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"The value of an override must be valid YAML. Received: {override}.") from None
    *sections, name = key.split(".")
    for section in sections:
        inner = settings.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InputError(f"`{section}` is not a section and has no key below it. Received: {override}.")
        settings = inner
    settings[name] = value


def _choose(presets: Mapping[str, Config], name: Any, key: str) -> Config:
    if not isinstance(name, str) or name not in presets:
        raise InputError(f"Unknown preset for `{key}`{_nearest(str(name), list(presets))} Received: {name}.")
    return presets[name]


def _nearest(name: str, known: list[str], prefix: str = "", whole: type | None = None) -> str:
    elsewhere = [path for path in _paths(whole) if path.rpartition(".")[2] == name] if whole else []
    if elsewhere:  # the right name in the wrong place
        return f"; did you mean {' or '.join(f'`{path}`' for path in elsewhere)}?"
    names = {path.rpartition(".")[2] for path in _paths(whole)} if whole else set()
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    far = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75)
    if far and far[0] not in known and (not near or _likeness(name, far[0]) > _likeness(name, near[0])):
        return _nearest(far[0], known, prefix, whole)
    if near:
        return f"; did you mean `{prefix}{near[0]}`?"
    return f"; known are {', '.join(known)}."


def _likeness(first: str, second: str) -> float:
    return difflib.SequenceMatcher(None, first, second).ratio()


def _paths(cls: type, prefix: str = "") -> list[str]:
    """Returns the dotted paths of all keys of a configuration, sections included."""
    paths = []
    for name, hint in typing.get_type_hints(cls).items():
        if name not in {field.name for field in dataclasses.fields(cls)}:
            continue
        paths.append(f"{prefix}{name}")
        for inner in (hint, *typing.get_args(hint)):
            if (
                isinstance(inner, type)
                and dataclasses.is_dataclass(inner)
                and typing.get_origin(hint) is not tuple
            ):
                paths += _paths(inner, f"{prefix}{name}.")
    return paths


def _convert(hint: Any, value: Any, base: Any, key: str, whole: type) -> Any:
    """Checks `value` against the annotation of a field, and converts lists and mappings to its type."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise InputError(f"`{key}` is a section of keys and values. Received: {_kind(value)}.")
        return _differ(hint() if base is None else base, value, f"{key}.", whole)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        inner = next(argument for argument in arguments if argument is not type(None))
        return _convert(inner, value, base, key, whole)
    if origin is typing.Literal:
        if value not in arguments:
            possible = ", ".join(str(own) or "empty" for own in arguments)
            raise InputError(f"`{key}` must be one of {possible}. Received: {value!r}.")
        return value
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise InputError(f"`{key}` is a section of keys and values. Received: {_kind(value)}.")
        return {
            _convert(arguments[0], name, None, key, whole): _convert(
                arguments[1], item, None, f"{key}.{name}", whole
            )
            for name, item in value.items()
        }
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"`{key}` must be a list. Received: {_kind(value)}.")
        return tuple(_convert(arguments[0], item, None, f"{key}[{i}]", whole) for i, item in enumerate(value))
    return _convert_scalar(hint, value, key)


def _convert_scalar(hint: Any, value: Any, key: str) -> Any:
    if hint is float and not isinstance(value, bool):
        # YAML 1.1 reads 1e-3 as a string.
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    elif isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise InputError(f"`{key}` must be {names.get(hint, hint)}. Received: {value!r} ({_kind(value)}).")


def _kind(value: Any) -> str:
    names: dict[type, str] = {
        bool: "true or false",
        dict: "a mapping",
        float: "a number",
        int: "a whole number",
        list: "a list",
        str: "text",
        type(None): "nothing",
    }
    return names.get(type(value), type(value).__name__)
