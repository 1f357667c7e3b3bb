"""Configuration: dataclasses, presets, and YAML files with overrides.

`RENAMED` of a dataclass maps old names of keys to new ones, and the loader tells the user.
"""
