"""LIBSVM's text format: exchanged with LIBSVM itself, round trips, malformed files."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libsvm import svmutil
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from widemargin.files.container import ModelFileError
from widemargin.files.libsvm_text import (
    LibsvmModel,
    format_libsvm_model,
    parse_libsvm_model,
    read_libsvm_model,
    write_libsvm_model,
)

KERNEL_OPTIONS = {
    "linear": "-t 0",
    "polynomial": "-t 1 -d 2 -g 0.3 -r 0.7",
    "rbf": "-t 2 -g 0.37",
    "sigmoid": "-t 3 -g 0.05 -r -0.2",
}

TEXT = """svm_type c_svc
kernel_type polynomial
degree 2
gamma 0.5
coef0 -1
nr_class 2
total_sv 3
rho 0.125
label 1 -1
probA -1.5
probB 0.25
nr_sv 1 2
SV
1 1:0.5 3:-2
-0.25 2:1e-3
-0.75
"""


def load_problem(n_classes):
    data, target = load_iris(return_X_y=True)
    # The last classes: the first one is so easy to tell apart that few vectors remain.
    keep = target >= 3 - n_classes
    return scale(data[keep]), target[keep] * 10


def compute_kernel(model, samples):
    vectors = model.vectors.toarray()
    samples = samples[:, : vectors.shape[1]]
    products = samples @ vectors.T
    if model.kernel == "rbf":
        distances = ((samples[:, None, :] - vectors[None, :, :]) ** 2).sum(axis=2)
        return np.exp(-model.gamma * distances)
    if model.kernel == "polynomial":
        return (model.gamma * products + model.coef0) ** model.degree
    if model.kernel == "sigmoid":
        return np.tanh(model.gamma * products + model.coef0)
    return products


def compute_decisions(model, kernel_values):
    ends = np.cumsum(model.n_support)
    blocks = [slice(end - size, end) for end, size in zip(ends, model.n_support, strict=True)]
    pairs = combinations(range(len(model.labels)), 2)
    columns = [
        kernel_values[:, blocks[i]] @ model.coef[j - 1, blocks[i]]
        + kernel_values[:, blocks[j]] @ model.coef[i, blocks[j]]
        - rho
        for (i, j), rho in zip(pairs, model.rho, strict=True)
    ]
    return np.column_stack(columns)


def train_and_save(path, target, samples, options):
    """Train with LIBSVM and return the model as it is after saving.

    LIBSVM writes the values of support vectors with 8 digits only, so the model in memory and
    the one in its file differ.
    """
    svmutil.svm_save_model(str(path), svmutil.svm_train(target, samples, f"{options} -q"))
    return svmutil.svm_load_model(str(path))


def predict_with_libsvm(model, samples):
    labels, _, decisions = svmutil.svm_predict([], samples, model, "-q")
    return np.array(labels), np.array(decisions)


def assert_same_model(first, second):
    for name in ("kernel", "degree", "gamma", "coef0", "labels", "svm_type"):
        assert getattr(first, name) == getattr(second, name)
    for name in ("rho", "n_support", "coef"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), strict=True)
    assert first.vectors.shape == second.vectors.shape
    np.testing.assert_array_equal(first.vectors.toarray(), second.vectors.toarray())


def make_model(**changes):
    fields = {
        "kernel": "rbf",
        "degree": 3,
        "gamma": 0.1,
        "coef0": 0.0,
        "labels": (7, -3, 0),
        "rho": np.array([1 / 3, -2e-300, 5.0]),
        "n_support": np.array([2, 0, 1]),
        "coef": np.array([[0.1, 0.2, -0.3], [1e-17, 5.0, -5.0]]),
        "vectors": csr_matrix([[0.0, 1 / 7, 0], [0, 0, 0], [1e300, 0, -5e-324]]),
    }
    return LibsvmModel(**(fields | changes))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", KERNEL_OPTIONS)
def test_exchange_with_libsvm(tmp_path, kernel, n_classes):
    samples, target = load_problem(n_classes)
    trained = train_and_save(tmp_path / "theirs", target, samples, KERNEL_OPTIONS[kernel])
    labels, decisions = predict_with_libsvm(trained, samples)

    model = read_libsvm_model(tmp_path / "theirs")
    assert (model.kernel, model.labels) == (kernel, tuple(trained.get_labels()))
    ours = compute_decisions(model, compute_kernel(model, samples))
    np.testing.assert_allclose(ours, decisions, rtol=0, atol=1e-9)

    write_libsvm_model(tmp_path / "ours", model)
    loaded = svmutil.svm_load_model(str(tmp_path / "ours"))
    labels_again, decisions_again = predict_with_libsvm(loaded, samples)
    np.testing.assert_array_equal(labels_again, labels)
    np.testing.assert_array_equal(decisions_again, decisions)


def test_exchange_of_precomputed_kernel(tmp_path):
    samples, target = load_problem(3)
    gram = samples @ samples.T
    rows = np.column_stack([np.arange(1, len(gram) + 1), gram])
    problem = svmutil.svm_problem(target, rows, isKernel=True)
    trained = svmutil.svm_train(problem, svmutil.svm_parameter("-t 4 -q"))
    theirs = np.array(svmutil.svm_predict([], rows.tolist(), trained, "-q")[2])
    svmutil.svm_save_model(str(tmp_path / "theirs"), trained)

    model = read_libsvm_model(tmp_path / "theirs")
    assert model.kernel == "precomputed"
    serials = model.vectors.toarray().ravel().astype(int)
    ours = compute_decisions(model, gram[:, serials - 1])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)

    write_libsvm_model(tmp_path / "ours", model)
    assert (tmp_path / "ours").read_text().splitlines()[-1].endswith(f" 0:{serials[-1]}")
    assert_same_model(read_libsvm_model(tmp_path / "ours"), model)
    loaded = svmutil.svm_load_model(str(tmp_path / "ours"))
    again = svmutil.svm_predict([], rows.tolist(), loaded, "-q")[2]
    np.testing.assert_array_equal(again, theirs)


def test_probability_lines_are_skipped(tmp_path):
    samples, target = load_problem(3)
    trained = train_and_save(tmp_path / "m", target, samples, "-b 1")
    assert "probA" in (tmp_path / "m").read_text()
    model = read_libsvm_model(tmp_path / "m")
    _, decisions = predict_with_libsvm(trained, samples)
    ours = compute_decisions(model, compute_kernel(model, samples))
    np.testing.assert_allclose(ours, decisions, rtol=0, atol=1e-9)


def test_fields_of_a_written_out_file():
    model = parse_libsvm_model(TEXT)
    expected = LibsvmModel(
        kernel="polynomial",
        degree=2,
        gamma=0.5,
        coef0=-1.0,
        labels=(1, -1),
        rho=np.array([0.125]),
        n_support=np.array([1, 2]),
        coef=np.array([[1.0, -0.25, -0.75]]),
        vectors=csr_matrix([[0.5, 0, -2], [0, 1e-3, 0], [0, 0, 0]]),
    )
    assert_same_model(model, expected)
    assert_same_model(parse_libsvm_model(TEXT.replace("\n", " \r\n") + "\n \n"), expected)


@pytest.mark.parametrize("kernel", KERNEL_OPTIONS)
def test_round_trip_keeps_every_bit(tmp_path, kernel):
    parameters = {"polynomial": {"degree": 5, "coef0": 0.3}, "sigmoid": {"coef0": -0.1}}
    gamma = 0.0 if kernel == "linear" else 0.1
    model = make_model(kernel=kernel, gamma=gamma, **parameters.get(kernel, {}))
    assert_same_model(parse_libsvm_model(format_libsvm_model(model)), model)
    write_libsvm_model(tmp_path / "m", model)
    assert_same_model(read_libsvm_model(tmp_path / "m"), model)


def test_round_trip_without_support_vectors():
    empty = make_model(
        n_support=np.zeros(3, dtype=np.int64), coef=np.zeros((2, 0)), vectors=csr_matrix((0, 0))
    )
    assert_same_model(parse_libsvm_model(format_libsvm_model(empty)), empty)


def test_unsorted_and_single_precision_vectors_are_written_in_order():
    vectors = csr_matrix((np.float32([1, 2, 0.1]), [2, 0, 1], [0, 2, 2, 3]), shape=(3, 3))
    text = format_libsvm_model(make_model(vectors=vectors))
    assert "1e-17 1:2 3:1\n" in text.replace("9.9999999999999998e-18", "1e-17")
    assert parse_libsvm_model(text).vectors[2, 1] == float(np.float32(0.1))
    np.testing.assert_array_equal(vectors.indices, [2, 0, 1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": "laplace"}, "unknown kernel 'laplace'"),
        ({"labels": (1, 2)}, "rho takes 1 values"),
        ({"labels": (1, 2, 2)}, "label comes twice"),
        ({"labels": (1, 2, 2.5)}, "not an integer"),
        ({"labels": (1, 2, 2**31)}, "32 bits"),
        ({"rho": np.zeros(2)}, "rho takes 3 values"),
        ({"rho": np.full(3, np.nan)}, "finite"),
        ({"gamma": np.inf}, "finite"),
        ({"n_support": np.array([1, 1, 2])}, "nr_sv must"),
        ({"svm_type": "one_class"}, "has no classes"),
        (
            {"svm_type": "nu_svr", "labels": (), "n_support": np.zeros(0, int)},
            "unsupported svm_type",
        ),
        ({"labels": (), "n_support": np.zeros(0, int), "rho": np.zeros(1)}, "label takes 2 values"),
        ({"coef": np.zeros((3, 2))}, "coef must have shape"),
        ({"coef": np.full((2, 3), np.inf)}, "must be finite"),
        ({"vectors": csr_matrix(np.full((3, 1), np.nan))}, "must be finite"),
        ({"vectors": csr_matrix(([1.0], ([0], [2**31 - 2])), shape=(3, 2**31 - 1))}, "not between"),
        (
            {"kernel": "precomputed", "vectors": csr_matrix([[1.0], [0.5], [3]])},
            r"line 10: .*0:ser",
        ),
    ],
)
def test_inconsistent_model_is_not_written(tmp_path, changes, message):
    with pytest.raises(ModelFileError, match=message):
        write_libsvm_model(tmp_path / "m", make_model(**changes))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("c_svc", "nu_svc", 1, "c_svc, epsilon_svr, one_class are supported"),
        ("c_svc", "nu_svr", 1, "c_svc, epsilon_svr, one_class are supported"),
        ("c_svc", "one_class", 9, "label belongs to classifiers, but svm_type is one_class"),
        ("c_svc", "epsilon_svr", 9, "label belongs to classifiers, but svm_type is epsilon_svr"),
        ("c_svc", "", 1, "c_svc, epsilon_svr, one_class are supported"),
        ("c_svc", "c_svc c_svc", 1, "c_svc, epsilon_svr, one_class are supported"),
        ("label 1 -1\n", "", 12, "label missing"),
        ("nr_sv 1 2\n", "", 12, "nr_sv missing"),
        ("polynomial", "laplace", 2, "linear, polynomial, rbf"),
        ("polynomial", "rbf linear", 2, "unsupported kernel_type"),
        ("degree 2", "depth 2", 3, "unknown key 'depth'"),
        ("degree 2", "", 3, "unknown key ''"),
        ("degree 2", "degree 2.5", 3, "not an integer"),
        ("degree 2", "degree", 3, "one value"),
        ("degree 2\n", "", 12, "degree missing for the polynomial kernel"),
        ("gamma 0.5", "gamma 0.5 1", 4, "one value"),
        ("gamma 0.5", "gamma nan", 4, "finite"),
        ("gamma 0.5", "gamma 1e999", 4, "finite"),
        ("gamma 0.5", "gamma 0_5", 4, "finite"),
        ("gamma 0.5", "gamma \u0663", 4, "finite"),
        ("gamma 0.5", "gamma 1-1", 4, "not a number"),
        ("coef0 -1", "gamma 1", 5, "gamma comes twice"),
        ("nr_class 2", "nr_class 1", 6, "at least 2"),
        ("nr_class 2", "nr_class 2 2", 6, "one value"),
        ("nr_class 2", "nr_class 3", 8, "rho takes 3 values for 3 classes, not 1"),
        ("nr_class 2", "nr_class 99999999999", 6, "32 bits"),
        ("nr_class 2", "nr_class " + "9" * 5000, 6, "not an integer"),
        ("total_sv 3", "total_sv 4", 7, "total_sv is 4 but 3"),
        ("total_sv 3", "total_sv -3", 7, "total_sv is -3"),
        ("rho 0.125", "rho 0.125 1", 8, "rho takes 1 values"),
        ("rho 0.125\n", "", 12, "rho missing"),
        ("label 1 -1", "label 1", 9, "label takes 2 values"),
        ("label 1 -1", "label 1 1", 9, "twice"),
        ("label 1 -1", "label 1 2147483648", 9, "32 bits"),
        ("nr_sv 1 2", "nr_sv 1 1", 12, "nr_sv must"),
        ("nr_sv 1 2", "nr_sv -1 4", 12, "nr_sv must"),
        ("nr_sv 1 2", "nr_sv 3", 12, "nr_sv takes 2 values"),
        ("SV\n", "SV 3\n", 13, "unknown key 'SV'"),
        ("SV\n", "", 13, "unknown key '1'"),
        ("1 1:0.5", "1:0.5", 14, "not a number"),
        ("1 1:0.5", "x 1:0.5", 14, "finite"),
        ("1 1:0.5", "1 1:inf", 14, "finite"),
        ("1 1:0.5", "1 1:1e400", 14, "finite"),
        ("1 1:0.5", "1 1:", 14, "not a number"),
        ("1 1:0.5", "1 1", 14, "not a number"),
        ("1 1:0.5", "1 :0.5", 14, "not an integer"),
        ("1 1:0.5", "1 1:2:3", 14, "not a number"),
        ("1 1:0.5", "1 1.0:2", 14, "not an integer"),
        ("1 1:0.5", "1 0:0.5", 14, "not between 1 and"),
        ("1 1:0.5", "1 -1:0.5", 14, "not between 1 and"),
        ("1 1:0.5", "1 3:0.5", 14, "do not increase"),
        ("1 1:0.5", "1 4:0.5", 14, "do not increase"),
        ("3:-2", "2147483647:-2", 14, "not between 1 and"),
        ("3:-2", "99999999999:-2", 14, "32 bits"),
        ("-0.25 2:1e-3\n", "\n", 15, "1 coefficients"),
        ("-0.75\n", "", 7, "2 support vectors follow"),
        ("-0.75\n", "-0.75\n1\n", 7, "4 support vectors follow"),
    ],
)
def test_malformed_line_is_named(old, new, line, message):
    assert TEXT.count(old) == 1
    with pytest.raises(ModelFileError, match=message) as caught:
        parse_libsvm_model(TEXT.replace(old, new), source="some.model")
    assert str(caught.value).startswith(f"some.model, line {line}: ")


@pytest.mark.parametrize("svm_type", ["epsilon_svr", "one_class"])
@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("nr_class 2", "nr_class 3", 6, "nr_class is 2"),
        ("nr_class 2", "nr_class", 6, "nr_class is 2"),
        ("nr_class 2\n", "", 9, "nr_class missing"),
        ("total_sv 3", "total_sv 4", 7, "total_sv is 4 but 3"),
        ("rho 0.125", "rho 0.125 1", 8, "rho takes 1 values"),
        ("rho 0.125\n", "rho 0.125\nnr_sv 1 2\n", 9, "nr_sv belongs to classifiers"),
        ("1 1:0.5 3:-2", "1 1 1:0.5", 11, "not a number"),
        ("-0.25 2:1e-3", "", 12, "1 coefficients"),
    ],
)
def test_malformed_line_of_a_model_without_classes(svm_type, old, new, line, message):
    text = TEXT.replace("c_svc", svm_type).replace("label 1 -1\n", "").replace("nr_sv 1 2\n", "")
    text = text.replace("probB 0.25\n", "")
    assert parse_libsvm_model(text).svm_type == svm_type
    assert text.count(old) == 1
    with pytest.raises(ModelFileError, match=message) as caught:
        parse_libsvm_model(text.replace(old, new), source="some.model")
    assert str(caught.value).startswith(f"some.model, line {line}: ")


@pytest.mark.parametrize("entry", ["1:1", "0:0", "0:1.5", "0:-1", "0:1 1:2", "", "0:1e10"])
def test_malformed_precomputed_entry_is_refused(entry):
    text = TEXT.replace("polynomial", "precomputed").replace("1 1:0.5 3:-2", f"1 {entry}")
    with pytest.raises(ModelFileError, match=r"line 14: .*0:serial"):
        parse_libsvm_model(text)


@pytest.mark.parametrize("end", range(0, TEXT.index("SV\n") + 1, 3))
def test_missing_vector_section_is_refused(end):
    with pytest.raises(ModelFileError, match="line"):
        parse_libsvm_model(TEXT[:end])


def test_largest_index_is_read():
    model = parse_libsvm_model(TEXT.replace("3:-2", f"{2**31 - 2}:-2"))
    assert model.vectors.shape == (3, 2**31 - 2)
    assert model.vectors[0, 2**31 - 3] == -2.0


def test_binary_file_is_refused(tmp_path):
    (tmp_path / "m").write_bytes(bytes(range(256)))
    with pytest.raises(ModelFileError, match="line 1: unknown key"):
        read_libsvm_model(tmp_path / "m")


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, len(TEXT)),
    st.integers(0, 4),
    st.text("0123456789-+.:eE_ \n\rinfaSV\u0663\0", max_size=4),
)
def test_mutated_text_is_refused_or_consistent(start, n_removed, inserted):
    try:
        model = parse_libsvm_model(TEXT[:start] + inserted + TEXT[start + n_removed :])
    except ModelFileError:
        return
    assert model.coef.shape == (len(model.labels) - 1, model.vectors.shape[0])
    assert_same_model(parse_libsvm_model(format_libsvm_model(model)), model)
