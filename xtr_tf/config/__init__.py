"""Configuration: dataclasses, presets, and YAML files with overrides.

Where a key got a new name, `RENAMED` of its dataclass maps the old one to it, and the loader says so.
"""
