"""Chunks of zarr arrays decoded: into their place, where they are as long as they should be."""

from __future__ import annotations

import numpy as np

from weft.errors import SourceError
from weft.io.files import Array, Extent, whole
from weft.plan.protocols import Box


def decode(
    compressor: str, encoded: bytes, extent: Extent, inside: Box, part: Array, path: str
) -> None:
    """Decode a chunk, straight into its place where it lands there whole.

    Raises
    ------
    SourceError
        The chunk, which is at `path`, is damaged, or another array's.
    """
    import numcodecs

    codec = numcodecs.get_codec({"id": compressor})
    direct = (
        inside == whole(extent.shape) and part.flags.c_contiguous and part.dtype == extent.dtype
        # Codecs say nothing of what they leave as it was.
        and decoded_bytes(compressor, encoded) == extent.nbytes
    )  # fmt: skip
    try:
        if direct:
            codec.decode(encoded, out=part)
        else:
            decoded = np.frombuffer(codec.decode(encoded), extent.dtype)
            np.copyto(part, decoded.reshape(extent.shape)[inside])
    except (RuntimeError, ValueError, OSError, EOFError) as error:
        raise SourceError(
            f"the {compressor} chunk {path} is damaged: {error}",
            f"a whole chunk of {extent.shape} {extent.dtype.name}",
        ) from error


def decoded_bytes(compressor: str, encoded: bytes) -> int | None:
    """How long a chunk says that it is; None where only decoding tells."""
    match compressor:
        case "lz4":
            return int.from_bytes(encoded[:4], "little")
        case "blosc":
            return int.from_bytes(encoded[4:8], "little")
        case "zstd" if len(encoded) > 4:  # RFC 8878, section 3.1.1.1
            descriptor = encoded[4]
            single_segment = descriptor >> 5 & 1
            width = (single_segment, 2, 4, 8)[descriptor >> 6]
            begin = 6 - single_segment + (0, 1, 2, 4)[descriptor & 3]
            size = int.from_bytes(encoded[begin : begin + width], "little")
            return size + 256 if width == 2 else size
    return None
