"""Networks: `core` holds the contract, every other file is one architecture.

`normalize` and `residual` are what architectures share; `loading` turns specs and files into networks.
"""
