"""The version, known also where the package is run without being installed."""

__version__ = "0.1.0"
