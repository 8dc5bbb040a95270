"""Named arrays in one file: safetensors on disk, memory-mapped and read-only in memory. No pickle, so loading runs no code."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hopwalk.errors import SavedFileError
from hopwalk.utils.files import parse_json, prepared, require_regular

Scalar = TypeVar("Scalar", bound=np.generic)
DTYPES: dict[str, type[np.generic]] = {"I32": np.int32, "I64": np.int64, "U8": np.uint8, "F32": np.float32, "F64": np.float64}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
DAMAGED = "Make it again, or copy it again from where it was made."


@contextmanager
def saving(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Write the arrays and a JSON-able `metadata` beside `path`, to take its place when the block ends without an error.

    Gives the checksum of the arrays and the SHA-256 of the file. The format is that of safetensors: the length of the header, the
    header in JSON, then the arrays; those with the largest elements first, so that each is aligned.
    """
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    names = sorted(contiguous, key=lambda name: (-contiguous[name].itemsize, name))
    checksum = _checksum(contiguous)
    header: dict[str, Any] = {"__metadata__": {"hopwalk": json.dumps({**metadata, "checksum": checksum}, sort_keys=True)}}
    end = 0
    for name in names:
        array, start = contiguous[name], end
        end = start + array.nbytes
        header[name] = {"dtype": DTYPE_NAMES[array.dtype.type], "shape": list(array.shape), "data_offsets": [start, end]}
    described = json.dumps(header, separators=(",", ":")).encode()
    described += b" " * (-len(described) % 8)
    chunks: list[bytes | memoryview] = [
        len(described).to_bytes(8, "little"),
        described,
        *(contiguous[name].reshape(-1).view(np.uint8).data.cast("B") for name in names),
    ]
    with prepared(path, chunks, 8 + len(described) + end) as digest:
        yield checksum, digest


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> int:
    """Write the arrays and a JSON-able `metadata` to one file, whole or not at all; the checksum of the arrays."""
    with saving(path, arrays, metadata) as (checksum, _):
        return checksum


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> int:
    """A CRC-32 of all arrays: detects damage, not tampering."""
    checksum = 0
    for name in sorted(arrays):
        checksum = zlib.crc32(arrays[name].data, zlib.crc32(name.encode(), checksum))
    return checksum


class ArrayFile:
    """The arrays and the metadata of a file that `save_arrays` wrote: memory-mapped, read-only, checked."""

    def __init__(self, path: Path, *, kind: str) -> None:
        from safetensors import SafetensorError, safe_open

        self.path = path
        try:
            require_regular(path)
            path.open("rb").close()
        except OSError as error:
            raise SavedFileError(f"the file cannot be opened ({error.strerror})", path=path, remedy=DAMAGED) from None
        try:
            with safe_open(path, framework="numpy") as checked:  # checks that the header and the sizes agree
                metadata = parse_json((checked.metadata() or {}).get("hopwalk", "{}"))
            self._arrays = _map_arrays(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise SavedFileError(f"this is not a whole hopwalk file ({error})", path=path, remedy=DAMAGED) from None
        if not isinstance(metadata, dict) or metadata.get("kind") != kind:
            raise SavedFileError(f"this file does not hold a hopwalk {kind}", path=path, remedy=DAMAGED)
        self.metadata: dict[str, Any] = metadata
        self.checksum = _checksum(self._arrays)
        self.require(metadata.get("checksum") == self.checksum, "its content does not fit its checksum")

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return sorted(self._arrays)

    def array(self, name: str) -> NDArray[Any]:
        """A copy of the array of that name, of any type and shape."""
        self.require(name in self, f"{name} is missing")
        return self._arrays[name].copy()

    def take(self, name: str, dtype: type[Scalar]) -> NDArray[Scalar]:
        """The one-dimensional array of that name and type."""
        self.require(name in self, f"{name} is missing")
        array = self._arrays[name]
        self.require(array.dtype == dtype and array.ndim == 1, f"{name} is not a column of {dtype.__name__}")
        return array

    def require(self, condition: Any, problem: str) -> None:
        """Raise an error unless the condition holds."""
        if not condition:
            raise SavedFileError(f"the file is damaged: {problem}", path=self.path, remedy=DAMAGED)

    def require_ids(self, name: str, ids: NDArray[np.int32], count: int) -> None:
        """Raise an error if an id is not in `range(count)`."""
        self.require(len(ids) == 0 or (ids.min() >= 0 and ids.max() < count), f"{name} has ids out of range")

    def require_offsets(self, name: str, offsets: NDArray[np.int64], size: int) -> None:
        """Raise an error unless the offsets rise from 0 to `size`."""
        fits = len(offsets) and offsets[0] == 0 and offsets[-1] == size and (offsets[1:] >= offsets[:-1]).all()
        self.require(fits, f"{name} do not fit what they point into")


def _map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    # safetensors copies when it gives numpy arrays; its layout (length, JSON header, raw bytes) is simple enough to map.
    with path.open("rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        header = parse_json(file.read(header_size))
    header.pop("__metadata__", None)
    # As a plain array: slices of a memmap object run Python code. It stays mapped and read-only.
    body = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))[8 + header_size :]
    return {
        name: body[slice(*entry["data_offsets"])].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
        if entry["dtype"] in DTYPES
    }
