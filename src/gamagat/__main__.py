"""`python -m gamagat` is the command `gamagat`."""

from gamagat.cli import main

if __name__ == "__main__":
    main()
