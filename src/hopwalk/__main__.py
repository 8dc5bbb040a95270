"""`python -m hopwalk` is the command `hopwalk`."""

from hopwalk.cli.main import run

if __name__ == "__main__":
    run()
