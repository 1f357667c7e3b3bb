"""The `xtr-tf` command: one file a group of subcommands, joined in `app.py`."""

from xtr_tf.cli.app import main as main
