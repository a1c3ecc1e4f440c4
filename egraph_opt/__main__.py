"""``python -m egraph_opt``: the command line, where its script is not on the path."""

from egraph_opt.cli import main

if __name__ == "__main__":  # processes that are spawned import it under another name
    main()
