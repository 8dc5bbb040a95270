"""Named arrays in one file: safetensors on disk, memory-mapped and read-only in memory. No pickle, so loading runs no code."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hopwalk.errors import SavedFileError

DAMAGED = "Make it again, or copy it again from where it was made."


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends without an error, and vanishes otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        yield Path(temporary)
        # mkstemp makes files only their owner can read; give the usual permissions instead.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        with Path(temporary).open("rb") as written:
            os.fsync(written.fileno())
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, Any]) -> None:
    """Write the arrays and a JSON-able `metadata` to one file, whole or not at all."""
    from safetensors.numpy import save_file

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with atomic_path(path) as temporary:
        save_file(contiguous, temporary, metadata={"hopwalk": json.dumps(metadata, sort_keys=True)})


def load_arrays(path: Path, *, kind: str) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """The arrays of a file, memory-mapped and read-only, and its metadata; `metadata["kind"]` must be `kind`."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as checked:  # checks that the header and the sizes agree
            metadata = json.loads((checked.metadata() or {}).get("hopwalk", "{}"))
    except FileNotFoundError:
        raise SavedFileError("there is no such file", path=path, remedy=DAMAGED) from None
    except (SafetensorError, OSError, ValueError) as error:
        raise SavedFileError(f"this is not a whole hopwalk file ({error})", path=path, remedy=DAMAGED) from None
    if not isinstance(metadata, dict) or metadata.get("kind") != kind:
        raise SavedFileError(f"this file does not hold a hopwalk {kind}", path=path, remedy=DAMAGED)
    return _map_tensors(path), metadata


def _map_tensors(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    # safetensors copies when it gives numpy arrays; its layout (length, JSON header, raw bytes) is simple enough to map.
    dtypes = {"I32": np.int32, "I64": np.int64, "U8": np.uint8, "F32": np.float32, "F64": np.float64, "BOOL": np.bool_}
    with path.open("rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_size))
    body = np.memmap(path, dtype=np.uint8, mode="r")[8 + header_size :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in dtypes:
            raise SavedFileError(f"array {name!r} has the unexpected type {entry['dtype']}", path=path, remedy=DAMAGED)
        start, end = entry["data_offsets"]
        tensors[name] = body[start:end].view(dtypes[entry["dtype"]]).reshape(entry["shape"])
    return tensors
