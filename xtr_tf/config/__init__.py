"""Configuration: dataclasses, presets, and YAML files with overrides."""
