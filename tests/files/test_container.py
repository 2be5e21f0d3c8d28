"""Model files: what is written is read back, and nothing else gets through."""

import json
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_matrix

import widemargin
from widemargin.files import container as model_io
from widemargin.files.container import (
    ModelFileError,
    pack_csr,
    read_model_file,
    unpack_csr,
    write_model_file,
)

NUMERIC_DTYPES = ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]
META = {"gamma": 0.1, "classes": ["a", "b"], "nested": {"n": 3, "none": None}}
ARRAYS = {"coef": np.array([0.5, -1.0]), "label": np.array(["yes", "né"]), "on": np.array([True])}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """One path for the many files of a fuzz test; function scope would not suit hypothesis."""
    return tmp_path_factory.mktemp("fuzz") / "model"


def make_header(**changes):
    arrays = [
        {"name": "a", "dtype": "<f8", "shape": [2], "offset": 0, "crc32": zlib.crc32(bytes(16))},
        {"name": "b", "dtype": "|u1", "shape": [3], "offset": 64, "crc32": zlib.crc32(bytes(3))},
    ]
    header = {"format": 1, "library": "0", "kind": "k", "meta": {}, "arrays": arrays}
    return header | changes


def make_file(header, data=bytes(67)):
    """Return the bytes of a file whose header may be hostile but has a valid checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-(len(model_io.MAGIC) + 12 + len(text)) % 64)
    return model_io.MAGIC + struct.pack("<QI", len(text), zlib.crc32(text)) + text + data


def make_record(**changes):
    return make_header(arrays=[make_header()["arrays"][0] | changes])


def read_bytes(path, content):
    path.write_bytes(content)
    return read_model_file(path)


def assert_same_content(model, kind, meta, arrays):
    assert (model.kind, model.meta) == (kind, meta)
    assert list(model.arrays) == list(arrays)
    for name, array in arrays.items():
        assert model.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(model.arrays[name], array, strict=True)


@pytest.mark.parametrize("byte_order", ["<", ">"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3), (1,) * 8])
def test_round_trip_of_every_dtype(tmp_path, shape, byte_order):
    generator = np.random.default_rng(0)
    arrays = {
        f"a_{dtype}": generator.integers(0, 2, size=shape).astype(byte_order + dtype)
        for dtype in [*NUMERIC_DTYPES, "U1", "U7", "U1024"]
    }
    write_model_file(tmp_path / "m", "all", META, arrays)
    model = read_model_file(tmp_path / "m")
    native = {name: array.astype(array.dtype.newbyteorder("=")) for name, array in arrays.items()}
    assert_same_content(model, "all", META, native)
    assert model.library_version == widemargin.__version__


def test_round_trip_of_special_values(tmp_path):
    arrays = {
        "floats": np.array([np.nan, np.inf, -0.0, 5e-324]),
        "extremes": np.array([-(2**63), 2**63 - 1]),
        "text": np.array(["", "zero\0inside", "\U0010ffff", "Straße"]),
    }
    write_model_file(tmp_path / "m", "k", {}, arrays)
    model = read_model_file(tmp_path / "m")
    assert_same_content(model, "k", {}, arrays)
    assert np.signbit(model.arrays["floats"][2])


def test_round_trip_of_strided_arrays_and_no_arrays(tmp_path):
    grid = np.arange(24.0).reshape(4, 6)
    arrays = {"transposed": grid.T, "strided": grid[::2, ::-1], "fortran": np.asfortranarray(grid)}
    write_model_file(tmp_path / "m", "k", META, arrays)
    assert_same_content(read_model_file(tmp_path / "m"), "k", META, arrays)
    write_model_file(tmp_path / "m", "k", META, {})
    assert_same_content(read_model_file(tmp_path / "m"), "k", META, {})


def test_numpy_scalars_and_tuples_in_meta_become_plain(tmp_path):
    meta = {"i": np.int64(3), "f": np.float32(0.5), "b": np.bool_(True), "t": (np.str_("x"), 1)}
    write_model_file(tmp_path / "m", "k", meta, {})
    assert read_model_file(tmp_path / "m").meta == {"i": 3, "f": 0.5, "b": True, "t": ["x", 1]}


def test_arrays_are_aligned_in_the_file(tmp_path):
    write_model_file(tmp_path / "m", "k", {}, {"a": np.full(3, 7.25), "b": np.full(2, 9.75)})
    content = (tmp_path / "m").read_bytes()
    assert content.index(np.full(3, 7.25).tobytes()) % 64 == 0
    assert content.index(np.full(2, 9.75).tobytes()) % 64 == 0


@pytest.mark.parametrize(
    "array",
    [
        np.array([None], dtype=object),
        np.array([1j]),
        np.array([b"bytes"]),
        np.zeros(1, dtype="f2"),
        np.zeros(1, dtype="M8[s]"),
        np.zeros(1, dtype=[("field", "f8")]),
        np.zeros(1, dtype="U1025"),
        np.zeros((1,) * 9),
        np.array([2], dtype="u1").view(bool),
        np.array([0xD800], dtype="u4").view("U1"),
        np.array([0x110000], dtype="u4").view("U1"),
    ],
)
def test_unsupported_arrays_are_not_written(tmp_path, array):
    with pytest.raises(ModelFileError, match="array 'bad'"):
        write_model_file(tmp_path / "m", "k", {}, {"bad": array})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("meta", "error"),
    [
        ({"x": float("nan")}, ValueError),
        ({"x": [np.float64("inf")]}, ValueError),
        ({"x": {1: "integer key"}}, ValueError),
        ({"x": np.zeros(2)}, TypeError),
        ({"x": {1, 2}}, TypeError),
    ],
)
def test_meta_that_is_not_json_is_not_written(tmp_path, meta, error):
    with pytest.raises(error):
        write_model_file(tmp_path / "m", "k", meta, {})
    assert not list(tmp_path.iterdir())


def test_names_and_sizes_are_limited_when_writing(tmp_path, monkeypatch):
    with pytest.raises(ModelFileError, match="identifier"):
        write_model_file(tmp_path / "m", "k", {}, {"not a name": np.zeros(1)})
    monkeypatch.setattr(model_io, "_MAX_HEADER_BYTES", 100)
    with pytest.raises(ModelFileError, match="too large"):
        write_model_file(tmp_path / "m", "k", {"long": "x" * 100}, {})


def test_failure_while_writing_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m"
    write_model_file(path, "old", META, ARRAYS)

    def fail(*_):
        raise OSError("disk full")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(model_io.os, function, fail)
            with pytest.raises(OSError, match="disk full"):
                write_model_file(path, "new", {}, {})
        assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
        assert_same_content(read_model_file(path), "old", META, ARRAYS)


def test_interrupt_while_writing_removes_the_temporary_file(tmp_path):
    def write_half():
        with model_io.replace_file(tmp_path / "m") as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert not list(tmp_path.iterdir())


def test_flipping_any_byte_is_detected(tmp_path):
    path = tmp_path / "m"
    write_model_file(path, "k", META, ARRAYS)
    content = path.read_bytes()
    for position in range(len(content)):
        for mask in (0x01, 0x20, 0xFF):
            flipped = bytearray(content)
            flipped[position] ^= mask
            with pytest.raises(ModelFileError):
                read_bytes(path, flipped)


def test_bytes_between_arrays_are_checked(tmp_path):
    good = make_file(make_header())
    assert set(read_bytes(tmp_path / "m", good).arrays) == {"a", "b"}
    hidden = make_file(make_header(), bytes(16) + b"hidden" + bytes(45))
    with pytest.raises(ModelFileError, match="bytes between its arrays are not zero"):
        read_bytes(tmp_path / "m", hidden)


def test_truncation_and_extension_are_detected(tmp_path):
    path = tmp_path / "m"
    write_model_file(path, "k", META, ARRAYS)
    content = path.read_bytes()
    for length in range(len(content)):
        with pytest.raises(ModelFileError):
            read_bytes(path, content[:length])
    with pytest.raises(ModelFileError, match="bytes instead of"):
        read_bytes(path, content + b"\0")


def test_crafted_file_is_valid_before_it_is_made_hostile(tmp_path):
    arrays = {"a": np.zeros(2), "b": np.zeros(3, dtype="u1")}
    assert_same_content(read_bytes(tmp_path / "m", make_file(make_header())), "k", {}, arrays)


@pytest.mark.parametrize(
    "header",
    [
        make_record(shape=[2**62]),
        make_record(shape=[2**31, 2**31, 2**31]),
        make_record(shape=[0, 2**62]),
        make_record(shape=[2**64]),
        make_record(shape=[-2]),
        make_record(shape=[-1, -2]),
        make_record(shape=[2.0]),
        make_record(shape=[True]),
        make_record(shape=[1] * 9),
        make_record(shape=2),
        make_record(shape=[3]),
        make_record(dtype="O"),
        make_record(dtype=">f8"),
        make_record(dtype="<f2"),
        make_record(dtype="<f1"),
        make_record(dtype="<U0"),
        make_record(dtype="<U1025"),
        make_record(dtype="<U٣"),
        make_record(dtype="f8,f8"),
        make_record(dtype=8),
        make_record(name="not a name"),
        make_record(name="a" * 100 + "-"),
        make_record(name=3),
        make_record(offset=64),
        make_record(offset=-64),
        make_record(offset=0.0),
        make_record(offset=2**63),
        make_record(crc32=1),
        make_record(crc32="0"),
        make_record(unknown=1),
        make_header(arrays=[{}]),
        make_header(arrays=[None]),
        make_header(arrays={}),
        make_header(arrays=[make_header()["arrays"][0]] * 2),
        make_header(arrays=make_header()["arrays"][::-1]),
        make_header(arrays=[entry | {"offset": 0} for entry in make_header()["arrays"]]),
        make_header(arrays=[entry | {"offset": 60} for entry in make_header()["arrays"]]),
        make_header(format=0),
        make_header(format=-1),
        make_header(format="1"),
        make_header(format=True),
        make_header(kind=1),
        make_header(library=None),
        make_header(meta=[]),
        make_header(unknown=1),
        {"format": 1},
        [],
        b"",
        b"{",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"format":1,"meta":{"x":NaN}}',
        b'{"format":1,"meta":{"x":1e999}}',
        b'{"format":' + b"9" * 5000 + b"}",
    ],
)
def test_hostile_header_is_refused(tmp_path, header):
    path = tmp_path / "hostile"
    with pytest.raises(ModelFileError) as caught:
        read_bytes(path, make_file(header))
    assert str(path) in str(caught.value)
    assert "save it again" in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))


def test_deeply_nested_entries_are_refused(tmp_path):
    """Nesting that JSON still takes must not overflow the stack later."""
    text = json.dumps(make_record(name="deep")).encode()
    for depth in range(100, 1000, 50):
        nested = b"[" * depth + b"]" * depth
        with pytest.raises(ModelFileError):
            read_bytes(tmp_path / "m", make_file(text.replace(b'"deep"', nested)))


def test_untrusted_numbers_allocate_nothing(tmp_path):
    path = tmp_path / "m"
    huge_header = model_io.MAGIC + struct.pack("<QI", 2**40, 0)
    for content in (huge_header, make_file(make_record(shape=[2**40]))):
        path.write_bytes(content)
        tracemalloc.start()
        with pytest.raises(ModelFileError):
            read_model_file(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**20


def test_limits_of_header_and_array_count(tmp_path, monkeypatch):
    content = make_file(make_header())
    monkeypatch.setattr(model_io, "_MAX_ARRAYS", 1)
    with pytest.raises(ModelFileError, match="too many arrays"):
        read_bytes(tmp_path / "m", content)
    monkeypatch.setattr(model_io, "_MAX_HEADER_BYTES", 64)
    with pytest.raises(ModelFileError, match="header of"):
        read_bytes(tmp_path / "m", content)


def test_unaligned_data_area_is_refused(tmp_path):
    text = json.dumps(make_header(arrays=[])).encode()
    if (len(model_io.MAGIC) + 12 + len(text)) % 64 == 0:
        text += b" "
    content = model_io.MAGIC + struct.pack("<QI", len(text), zlib.crc32(text)) + text
    with pytest.raises(ModelFileError, match="where they should be"):
        read_bytes(tmp_path / "m", content)


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("|b1", b"\0\2"),
        ("<U1", struct.pack("<2I", 65, 0x110000)),
        ("<U1", struct.pack("<2I", 65, 0xD800)),
        ("<U1", struct.pack("<2I", 0xDFFF, 65)),
    ],
)
def test_invalid_values_are_refused(tmp_path, dtype, data):
    header = make_record(dtype=dtype, crc32=zlib.crc32(data))
    with pytest.raises(ModelFileError, match="array a holds invalid values"):
        read_bytes(tmp_path / "m", make_file(header, data))


def test_newer_format_asks_for_an_upgrade(tmp_path):
    content = make_file({"format": 7, "whatever": "comes then"})
    with pytest.raises(
        ModelFileError, match=r"written by a newer widemargin \(format 7\); upgrade"
    ):
        read_bytes(tmp_path / "m", content)


@pytest.mark.parametrize("content", [b"", b"wide", b"svm_type c_svc\n", b"\x80\x04K\x01."])
def test_foreign_file_is_refused(tmp_path, content):
    with pytest.raises(ModelFileError, match="magic line"):
        read_bytes(tmp_path / "m", content)


def test_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_model_file(tmp_path / "absent")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_are_refused(scratch, content, with_magic):
    with pytest.raises(ModelFileError):
        read_bytes(scratch, model_io.MAGIC * with_magic + content)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["a", "b", "<f8", "<U2", "|b1", "<i2", "", "\ud800", "x" * 200]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mutated_headers_are_refused_or_read(scratch, data):
    header = make_header()
    entry = data.draw(st.sampled_from([header, *header["arrays"]]))
    key = data.draw(st.sampled_from(sorted(entry)))
    entry[key] = data.draw(JSON_VALUES)
    try:
        model = read_bytes(scratch, make_file(header))
    except ModelFileError:
        return
    assert model.kind == header["kind"]
    assert sum(array.nbytes for array in model.arrays.values()) <= 67


def test_round_trip_of_csr(tmp_path):
    generator = np.random.default_rng(0)
    for shape in ((5, 7), (0, 4), (4, 0), (0, 0), (1, 1)):
        matrix = csr_matrix(generator.random(shape) * (generator.random(shape) < 0.4))
        write_model_file(tmp_path / "m", "k", {}, pack_csr("vectors", matrix))
        loaded = unpack_csr("vectors", read_model_file(tmp_path / "m").arrays)
        assert loaded.shape == matrix.shape
        np.testing.assert_array_equal(loaded.toarray(), matrix.toarray())


def test_packing_sorts_a_copy():
    unsorted = csr_matrix((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])))
    unsorted.has_sorted_indices = unsorted.has_canonical_format = True
    packed = pack_csr("m", unsorted)
    np.testing.assert_array_equal(packed["m_indices"], [0, 2])
    np.testing.assert_array_equal(packed["m_data"], [2.0, 4.0])
    np.testing.assert_array_equal(unsorted.indices, [2, 0, 2])
    coordinates = coo_array(([1.0, 1.0], ([0, 0], [1, 1])), shape=(1, 3))
    np.testing.assert_array_equal(
        unpack_csr("m", pack_csr("m", coordinates)).toarray(), [[0, 2, 0]]
    )


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("data", np.ones(3)),
        ("data", np.ones((2, 2))),
        ("data", np.array(["a", "b", "c", "d"])),
        ("indices", np.array([0, 2, 1, 3], dtype="i4")),
        ("indices", np.array([0, -1, 1, 2], dtype="i4")),
        ("indices", np.array([0, 2, 1, 1], dtype="i4")),
        ("indices", np.array([2, 0, 1, 2], dtype="i4")),
        ("indices", np.array([0, 2**63 - 1, -(2**63), 2])),
        ("indices", np.array([0, 2, 1, 2], dtype="u4")),
        ("indices", np.array([0.0, 2, 1, 2])),
        ("indptr", np.array([0, 2, 2], dtype="i4")),
        ("indptr", np.array([0, 2, 2, 3], dtype="i4")),
        ("indptr", np.array([0, 2, 2, 5], dtype="i4")),
        ("indptr", np.array([1, 2, 2, 4], dtype="i4")),
        ("indptr", np.array([0, 3, 2, 4], dtype="i4")),
        ("indptr", np.array([0, -1, 2, 4], dtype="i4")),
        ("indptr", np.array([0, 9, 2, 4], dtype="i4")),
        ("indptr", np.array([], dtype="i4")),
        ("indptr", np.array(4, dtype="i4")),
        ("shape", np.array([3, 2])),
        ("shape", np.array([4, 3])),
        ("shape", np.array([3, -1])),
        ("shape", np.array([3.0, 3.0])),
        ("shape", np.array([3, 3, 1])),
        ("shape", np.array(3)),
    ],
)
def test_inconsistent_csr_is_refused(part, value):
    packed = pack_csr("m", csr_matrix([[1.0, 0, 2], [0, 0, 0], [0, 3, 4]]))
    assert unpack_csr("m", packed).nnz == 4
    packed[f"m_{part}"] = value
    with pytest.raises(ModelFileError, match="sparse matrix 'm' is inconsistent"):
        unpack_csr("m", packed)


def test_incomplete_csr_is_refused():
    with pytest.raises(ModelFileError, match="lacks its data, indices, indptr, shape"):
        unpack_csr("m", {})
