"""The transports: they carry frames as bytes, do not interpret them, and do not decide what a loss
means.

Links that carry frames implement the contract `Transport`. Nothing is imported here, so that using
one transport never loads the libraries of another.
"""

from __future__ import annotations


__all__: list[str] = []  # each module is imported where it is needed
