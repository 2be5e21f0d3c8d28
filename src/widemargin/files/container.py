"""Versioned model files without pickle: a JSON header followed by raw arrays.

Layout: magic line, u64 header length, u32 header crc32, JSON header, arrays; integers are
little-endian. The header is padded with spaces so that the data area, like every array in it,
starts at a multiple of 64 bytes. The bytes between arrays are zero. What precedes the header is
the same in all format versions, so that a library can tell a newer file from a damaged one.
"""

import io
import json
import math
import os
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from widemargin import __version__
from widemargin.files.atomic_output import replace_file

FORMAT_VERSION = 1
MAGIC = b"widemargin-model\n"

_PREFIX = struct.Struct("<QI")
_ALIGNMENT = 64
_MAX_HEADER_BYTES = 64 * 2**20
_MAX_ARRAYS = 65536
_MAX_NDIM = 8
_MAX_CHARACTERS = 1024
_DTYPE_PATTERN = re.compile(r"<[fiu][48]|<[iu]2|\|[iub]1|<U([1-9][0-9]{0,3})")
_HEADER_TYPES = {"format": int, "library": str, "kind": str, "meta": dict, "arrays": list}
_CSR_PARTS = ("data", "indices", "indptr", "shape")
_DAMAGED = "the file is damaged or not a widemargin model; save it again or restore a copy"


class ModelFileError(ValueError):
    """A model file that cannot be read, or content that cannot be stored in one."""


@dataclass(frozen=True, eq=False)
class ModelFile:
    """Content of a model file.

    Attributes
    ----------
    kind : str
        What the file describes; the caller decides which kinds it understands.
    meta : dict
        Plain JSON values.
    arrays : dict of str to ndarray
        The arrays by name, in the byte order of this machine.
    library_version : str
        Version of widemargin that wrote the file.
    """

    kind: str
    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    library_version: str


class _Record(NamedTuple):
    """Header entry of one array; the field names are the JSON keys."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    crc32: int


def write_model_file(
    path: str | os.PathLike[str],
    kind: str,
    meta: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write a model file; an existing file is replaced only once the new one is complete.

    Parameters
    ----------
    path : path-like
        Where to write.
    kind : str
        What the file describes.
    meta : mapping
        JSON values with string keys; NumPy scalars become Python numbers, tuples become lists.
        Anything else, NaN and infinities included, raises ValueError or TypeError.
    arrays : mapping of str to ndarray
        Arrays of numbers, booleans or fixed-width strings, named by identifiers; others raise
        ModelFileError.
    """
    stored = {name: _encode_array(name, array) for name, array in arrays.items()}
    offsets, _ = _place_arrays([array.nbytes for array in stored.values()])
    records = [
        _Record(name, array.dtype.str, array.shape, offset, zlib.crc32(_view_bytes(array)))
        for offset, (name, array) in zip(offsets, stored.items(), strict=True)
    ]
    header = _encode_header(kind, meta, records)
    with replace_file(path) as stream:
        stream.write(MAGIC + _PREFIX.pack(len(header), zlib.crc32(header)) + header)
        for array in stored.values():
            stream.write(bytes(-stream.tell() % _ALIGNMENT))
            stream.write(_view_bytes(array))


def read_model_file(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model file, which need not be trusted, verifying all of it.

    Parameters
    ----------
    path : path-like
        A file written by `write_model_file`.

    Returns
    -------
    ModelFile
        The content. A file that is damaged, truncated, foreign or of a newer format raises
        ModelFileError; one that cannot be opened raises OSError.
    """
    with open(path, "rb") as stream:
        try:
            return _read_stream(stream, os.fstat(stream.fileno()).st_size)
        except ModelFileError as error:
            raise ModelFileError(f"cannot read {os.fspath(path)!r}: {error}") from error


def sort_csr(matrix: Any) -> csr_matrix:
    """Return a matrix as CSR with sorted, unique indices; the input is shared or left as is."""
    csr = csr_matrix(matrix)
    # A new object, because the input may carry a cached "is sorted" flag that no longer holds.
    fresh = csr_matrix((csr.data, csr.indices, csr.indptr), shape=csr.shape)
    if not fresh.has_canonical_format:
        fresh = fresh.copy()
        fresh.sum_duplicates()
    return fresh


def pack_csr(name: str, matrix: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays ``{name}_data``, ``_indices``, ``_indptr``, ``_shape`` of a matrix.

    Parameters
    ----------
    name : str
        Prefix of the array names.
    matrix : sparse matrix or array
        Stored with sorted, unique indices.

    Returns
    -------
    dict of str to ndarray
        Arrays for `write_model_file`.
    """
    csr = sort_csr(matrix)
    parts = (csr.data, csr.indices, csr.indptr, np.array(csr.shape, dtype=np.int64))
    return {f"{name}_{part}": array for part, array in zip(_CSR_PARTS, parts, strict=True)}


def unpack_csr(name: str, arrays: Mapping[str, NDArray[Any]]) -> csr_matrix:
    """Rebuild the matrix stored by `pack_csr`, verifying its structure.

    Parameters
    ----------
    name : str
        Prefix of the array names.
    arrays : mapping of str to ndarray
        Arrays of a model file. Missing or inconsistent ones raise ModelFileError.

    Returns
    -------
    csr_matrix
        The matrix, with sorted, unique indices.
    """
    missing = [part for part in _CSR_PARTS if f"{name}_{part}" not in arrays]
    _require(not missing, f"sparse matrix {name!r} lacks its {', '.join(missing)}")
    data, indices, indptr, shape = (arrays[f"{name}_{part}"] for part in _CSR_PARTS)
    _require(_is_csr(data, indices, indptr, shape), f"sparse matrix {name!r} is inconsistent")
    return csr_matrix((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))


def _is_csr(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: NDArray[Any]
) -> bool:
    if any(part.dtype not in (np.int32, np.int64) for part in (indices, indptr, shape)):
        return False
    if shape.shape != (2,) or (shape < 0).any() or indptr.ndim != 1 or data.ndim != 1:
        return False
    if data.dtype.kind == "U" or indices.shape != data.shape or indptr.size - 1 != shape[0]:
        return False
    if indptr[0] != 0 or indptr[-1] != data.size or (indptr[1:] < indptr[:-1]).any():
        return False
    if ((indices < 0) | (indices >= shape[1])).any():
        return False
    increases = indices[1:] > indices[:-1]
    starts = indptr[(indptr > 0) & (indptr < data.size)]
    increases[starts - 1] = True
    return bool(increases.all())


def _require(holds: object, problem: str, advice: str = _DAMAGED) -> None:
    if not holds:
        raise ModelFileError(f"{problem}; {advice}")


def _is_count(value: object) -> bool:
    # type() because JSON's true is an int for isinstance.
    return type(value) is int and 0 <= value < 2**63


def _is_storable(dtype: str, n_dimensions: int) -> bool:
    match = _DTYPE_PATTERN.fullmatch(dtype)
    if match is None or n_dimensions > _MAX_NDIM:
        return False
    return int(match[1] or 1) <= _MAX_CHARACTERS


def _has_valid_values(array: NDArray[Any]) -> bool:
    """Tell whether the raw bytes are booleans and characters that NumPy and Python can handle."""
    if array.dtype.kind == "b":
        return not (array.view(np.uint8) > 1).any()
    if array.dtype.kind == "U":
        points = array.reshape(-1).view("<u4")
        is_surrogate = (points >= 0xD800) & (points <= 0xDFFF)
        return not (is_surrogate | (points > 0x10FFFF)).any()
    return True


def _view_bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _place_arrays(sizes: list[int]) -> tuple[list[int], int]:
    """Return the offset of each array in the data area and the size of the area."""
    offsets = []
    end = 0
    for size in sizes:
        offsets.append(end + -end % _ALIGNMENT)
        end = offsets[-1] + size
    return offsets, end


def _encode_array(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return a C-ordered little-endian array, or the input itself if it already is one."""
    _require(name.isidentifier(), f"array name {name!r} is not an identifier", "rename it")
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("<")
    problem = f"array {name!r} of type {dtype} and shape {array.shape} cannot be stored"
    advice = "use numbers, booleans or strings of at most 1024 characters in up to 8 dimensions"
    _require(_is_storable(dtype.str, array.ndim), problem, advice)
    stored = np.asarray(array, dtype=dtype, order="C")
    _require(_has_valid_values(stored), f"array {name!r} holds invalid values", "repair them")
    return stored


def _convert_plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_convert_plain(item) for item in value]
    if isinstance(value, Mapping):
        # json would turn other keys into strings without a word.
        texts = all(isinstance(key, str) for key in value)
        _require(texts, "meta has keys that are not strings", "convert them")
        return {key: _convert_plain(item) for key, item in value.items()}
    return value


def _encode_header(kind: str, meta: Mapping[str, Any], records: list[_Record]) -> bytes:
    header = {
        "format": FORMAT_VERSION,
        "library": __version__,
        "kind": kind,
        "meta": _convert_plain(meta),
        "arrays": [record._asdict() for record in records],
    }
    text = json.dumps(header, allow_nan=False).encode("utf-8")
    text += b" " * (-(len(MAGIC) + _PREFIX.size + len(text)) % _ALIGNMENT)
    fits = len(text) <= _MAX_HEADER_BYTES and len(records) <= _MAX_ARRAYS
    _require(fits, "the header is too large", "store less meta, or fewer and larger arrays")
    return text


def _read_stream(stream: io.BufferedReader, file_size: int) -> ModelFile:
    header = _parse_header(_read_header(stream, file_size))
    start = stream.tell()
    records = [_check_record(entry) for entry in header["arrays"]]
    _check_layout(records, start, file_size)
    arrays = {}
    for record in records:
        _skip_padding(stream, start + record.offset)
        arrays[record.name] = _read_array(stream, record)
    return ModelFile(header["kind"], header["meta"], arrays, header["library"])


def _read_header(stream: io.BufferedReader, file_size: int) -> bytes:
    _require(stream.read(len(MAGIC)) == MAGIC, "it does not start with the magic line")
    prefix = stream.read(_PREFIX.size)
    _require(len(prefix) == _PREFIX.size, "it ends before the header")
    length, checksum = _PREFIX.unpack(prefix)
    bound = min(_MAX_HEADER_BYTES, file_size - stream.tell())
    _require(length <= bound, f"a header of {length} bytes cannot be")
    text = stream.read(length)
    _require(zlib.crc32(text) == checksum, "the checksum of the header does not match")
    return text


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.20} is not a finite number")
    return number


def _parse_header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(
            text.decode("utf-8"), parse_constant=_parse_finite, parse_float=_parse_finite
        )
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the header is not valid JSON ({error}); {_DAMAGED}") from error
    _require(isinstance(header, dict), "the header is not a JSON object")
    version = header.get("format")
    _require(_is_count(version), "the header has no format version")
    is_newer = version > FORMAT_VERSION
    _require(not is_newer, f"written by a newer widemargin (format {version})", "upgrade")
    _require(version == FORMAT_VERSION, f"there is no format {version}")
    _require(header.keys() == _HEADER_TYPES.keys(), "the header has missing or unknown entries")
    for key, kind in _HEADER_TYPES.items():
        _require(isinstance(header[key], kind), f"header entry {key!r} has a wrong type")
    _require(len(header["arrays"]) <= _MAX_ARRAYS, "the header describes too many arrays")
    return header


def _check_record(entry: Any) -> _Record:
    complete = isinstance(entry, dict) and entry.keys() == set(_Record._fields)
    _require(complete, "the header has an incomplete array")
    name, dtype, shape = entry["name"], entry["dtype"], entry["shape"]
    _require(isinstance(name, str) and name.isidentifier(), "an array has a bad name")
    numbers = isinstance(shape, list) and all(map(_is_count, [*shape, entry["offset"]]))
    _require(numbers, f"array {name:.80} has a bad shape or offset")
    known = isinstance(dtype, str) and _is_storable(dtype, len(shape))
    _require(known, f"array {name:.80} has an unknown dtype or too many dimensions")
    # Zeros do not count: NumPy refuses empty arrays whose other dimensions are too large.
    extent = math.prod(size or 1 for size in shape) * np.dtype(dtype).itemsize
    _require(_is_count(extent), f"array {name:.80} is too large")
    return _Record(**(entry | {"shape": tuple(shape)}))


def _check_layout(records: list[_Record], start: int, file_size: int) -> None:
    """Require the layout of the writer, hence no overlap, gap or trailing bytes."""
    _require(len({record.name for record in records}) == len(records), "an array comes twice")
    sizes = [math.prod(record.shape) * np.dtype(record.dtype).itemsize for record in records]
    offsets, end = _place_arrays(sizes)
    placed = start % _ALIGNMENT == 0 and offsets == [record.offset for record in records]
    _require(placed, "its arrays overlap or are not where they should be")
    _require(start + end == file_size, f"it has {file_size} bytes instead of {start + end}")


def _skip_padding(stream: io.BufferedReader, end: int) -> None:
    """Read up to the next array; no checksum covers these bytes, so they must be those written."""
    padding = stream.read(end - stream.tell())
    _require(not any(padding), "the bytes between its arrays are not zero")


def _read_array(stream: io.BufferedReader, record: _Record) -> NDArray[Any]:
    array = np.empty(record.shape, dtype=record.dtype)
    content = _view_bytes(array)
    _require(stream.readinto(content) == len(content), "it shrank while being read")
    matches = zlib.crc32(content) == record.crc32
    _require(matches, f"the checksum of array {record.name:.80} does not match")
    _require(_has_valid_values(array), f"array {record.name:.80} holds invalid values")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def require(holds: object, problem: str) -> None:
    """Refuse a file whose parts do not fit together."""
    if not holds:
        raise ModelFileError(f"{problem}; the file is damaged or was not written by widemargin")
