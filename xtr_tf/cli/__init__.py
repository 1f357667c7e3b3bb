"""The `xtr-tf` command: one file per group of subcommands, joined in `app.py`."""


def main() -> None:
    """Runs the command."""
    # Imported late: `app` collects the commands of other packages, which import this one.
    from xtr_tf.cli.app import main as run

    run()
