"""``python -m flower_client`` is the command ``flower-client``."""

from flower_client.cli import main

if __name__ == "__main__":
    main(prog_name="flower-client")
