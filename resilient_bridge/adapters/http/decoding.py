"""Decode a compressed body in pieces, apart from the client, to detect a decompression bomb early.

Rule: it decodes as httpx and httpx2 do, with the libraries that they have loaded, and holds one
piece at a time. Their own decoders cannot do this: neither library has a public door through which
a body can be decoded part by part as it passes, and httpx's return at once all that a part becomes.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias


_PIECE: Final = 65_536
_SLICE: Final = 64  # bytes passed at once to a library without a limit on its output
_MOST_LAYERS: Final = 8
_GZIP: Final = zlib.MAX_WBITS | 16

_Layer: TypeAlias = Callable[[Iterable[bytes]], Iterator[bytes]]


class Decoding:
    """The decoding of one body, by its Content-Encoding.

    An encoding that is unknown, or whose library is not loaded, is ignored.
    """

    def __init__(self, encodings: str) -> None:
        names = [name.strip().lower() for name in encodings.split(",")]
        layers = (layer for name in reversed(names) if (layer := _layer(name)) is not None)
        self._layers = list(islice(layers, _MOST_LAYERS))

    def __bool__(self) -> bool:
        """Return whether anything has to be decoded."""
        return bool(self._layers)

    def pieces(self, part: bytes) -> Iterator[bytes]:
        """Decode the next part of the body, and yield it in pieces.

        Raises the library's error for a broken part.
        """
        pieces: Iterator[bytes] = iter((part,))
        for layer in self._layers:
            pieces = layer(pieces)
        return pieces


def decoded(encodings: str, data: bytes, most: int) -> bytes | None:
    """Return the data decoded, as far as it goes if it is incomplete.

    None if that is more than `most` bytes, or if the data is broken.
    """
    found = bytearray()
    try:
        for piece in Decoding(encodings).pieces(data):
            found += piece
            if len(found) > most:
                return None
    except Exception:  # noqa: BLE001 -- each library has its own
        return None
    return bytes(found)


def _layer(name: str) -> _Layer | None:
    if name == "gzip":
        return _Inflating(_GZIP)
    if name == "deflate":
        return _Inflating(zlib.MAX_WBITS, -zlib.MAX_WBITS)
    if name == "br":
        library: Any = sys.modules.get("brotli") or sys.modules.get("brotlicffi")
        return None if library is None else _sliced(_brotli(library.Decompressor()))
    if name == "zstd":
        return _zstd()
    return None


class _Inflating:
    """A zlib decoder with a bounded output; `form` is the `wbits` of zlib.

    If the first bytes are not in this form, `otherwise` is tried.
    """

    def __init__(self, form: int, otherwise: int | None = None) -> None:
        self._inflate = zlib.decompressobj(form)
        self._otherwise = otherwise

    def __call__(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            rest = part
            while rest and not self._inflate.eof:
                try:
                    piece = self._inflate.decompress(rest, _PIECE)
                except zlib.error:
                    if self._otherwise is None:
                        raise
                    self._inflate, self._otherwise = zlib.decompressobj(self._otherwise), None
                    continue
                self._otherwise = None
                if piece:
                    yield piece
                rest = self._inflate.unconsumed_tail


def _sliced(decode: Callable[[bytes], bytes]) -> _Layer:
    def layer(parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            for at in range(0, len(part), _SLICE):
                piece = decode(part[at : at + _SLICE])
                if piece:
                    yield piece

    return layer


def _brotli(decompressor: Any) -> Callable[[bytes], bytes]:
    return decompressor.decompress if hasattr(decompressor, "decompress") else decompressor.process  # type: ignore[no-any-return]


def _zstd() -> _Layer | None:
    library: Any = sys.modules.get("zstandard")
    if library is not None:
        return _sliced(_Frames(lambda: library.ZstdDecompressor().decompressobj()))
    library = sys.modules.get("compression.zstd") or sys.modules.get("backports.zstd")
    return None if library is None else _sliced(_Frames(library.ZstdDecompressor))


class _Frames:
    """A Zstandard decoder of several frames in sequence."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._frame = make()

    def __call__(self, data: bytes) -> bytes:
        found = b""
        while data:
            if self._frame.eof:
                self._frame = self._make()
            found += self._frame.decompress(data)
            data = self._frame.unused_data if self._frame.eof else b""
        return found
