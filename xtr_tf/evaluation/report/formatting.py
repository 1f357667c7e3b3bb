"""Formats numbers and names; metrics are shown in points from 0 to 100."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MINUS = "−"

LANGUAGE_NAMES: Mapping[str, str] = {
    "ar": "Arabic",
    "bn": "Bengali",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "hi": "Hindi",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "sw": "Swahili",
    "te": "Telugu",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "und": "not stated",
    "vi": "Vietnamese",
    "yo": "Yoruba",
    "zh": "Chinese",
}

VERDICT_SIGNS = {"better": "▲", "worse": "▼", "no clear difference": "≈"}


def points(value: float | None) -> str:
    """`0.6624` as `66.2`; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}"


def signed_points(value: float) -> str:
    """`-0.021` as `−2.1`, `0.021` as `+2.1`."""
    text = f"{100 * value:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", MINUS)


def between(low: float, high: float, signed: bool = False) -> str:
    """The ends of an interval: `63.1 to 69.0`.

    Args:
        low: The lower end, from 0 to 1.
        high: The upper end.
        signed: Whether to write signs.

    Returns:
        The interval in points.
    """
    form = signed_points if signed else points
    return f"{form(low)} to {form(high)}"


def p_text(p: float) -> str:
    """`0.0312` as `0.031`; anything below a thousandth as `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def count(value: float) -> str:
    """`12345` as `12,345`."""
    return f"{value:,.0f}"


def operations(value: float) -> str:
    """`3.62e8` as `362 million`."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if value >= size:
            scaled = value / size
            return f"{scaled:.3g} {name}" if scaled < 100 else f"{scaled:.0f} {name}"
    return f"{value:.0f}"


def megabytes(value: float) -> str:
    """`4.5e8` as `450 MB`."""
    return f"{value / 1e6:,.0f} MB" if value >= 1e6 else f"{value / 1e3:,.0f} kB"


def duration(seconds: float) -> str:
    """`312.4` as `5 min 12 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def language(code: str) -> str:
    """`de` as `German (de)`; a code without a known name as it is."""
    return f"{LANGUAGE_NAMES[code]} ({code})" if code in LANGUAGE_NAMES else code


def imputation(key: str) -> str:
    """Describes an imputation of `token_analysis`."""
    return {
        "none": "none: mean over the tokens retrieved",
        "0.0": "zero",
        "0.2": "0.2",
        "top_k_prime": "score of the k′-th token (XTR)",
    }.get(key, key)


def system_labels(content: Mapping[str, Any]) -> dict[str, str]:
    """The short names of a report's systems, by key."""
    return {system["key"]: system["label"] for system in content["systems"]}


def figure(row: Mapping[str, Any], system: str, metric: str) -> Mapping[str, float] | None:
    """One figure of a row of a report's content, or None.

    Args:
        row: A dataset or an average of a report's content.
        system: The system's key.
        metric: A name from `METRICS`.

    Returns:
        The value with the ends of its interval, or None if it was not measured.
    """
    measured: Mapping[str, float] | None = row["figures"].get(system, {}).get(metric)
    return measured


def best_systems(row: Mapping[str, Any], systems: list[str], metric: str) -> set[str]:
    """Returns those of `systems` with the best printed figure.

    Args:
        row: A dataset or an average of a report's content.
        systems: Keys of the systems to compare.
        metric: A name from `METRICS`.

    Returns:
        The keys of the best; several if they print the same.
    """
    figures = {system: figure(row, system, metric) for system in systems}
    values = {system: points(measured["value"]) for system, measured in figures.items() if measured}
    best = max(values.values(), key=float, default="")
    return {system for system, value in values.items() if value == best}
