"""Calibrated probabilities as C: curves of decision values, and their coupling for several classes."""

import numpy as np

from widemargin.exact.calibration import (
    LEAST_PROBABILITY,
    Calibration,
    SigmoidCurve,
    StepCurve,
)
from widemargin.export.c_float import write_exp
from widemargin.export.c_interface import name_type, write_steps
from widemargin.export.c_text import Program, write_float
from widemargin.export.description import Description
from widemargin.problem import class_pairs


def write_probabilities(
    program: Program, described: Description, dtype: str, unit: float, *, libm: bool
) -> None:
    """Add ``@calibrate`` and ``@predict_proba`` if the model has probabilities.

    Probabilities are computed in float, and their coupling in double, whatever the type of the model.
    ``unit`` is the value of the integer one in a decision.
    """
    calibration = described.calibration
    if calibration is None:
        return
    is_sigmoid = isinstance(calibration.curves[0], SigmoidCurve)
    if is_sigmoid and not any("float @exp(float t)" in text for text in program.functions):
        write_exp(program, libm=libm)
    if calibration.coupling == "softmax":
        _write_softmax(program, calibration, dtype, unit)
    else:
        write_curves = _write_sigmoids if is_sigmoid else _write_thresholds
        write_curves(program, calibration)
        _write_coupling(program, calibration, dtype, unit)
    _write_predict(program, dtype)


def _write_value(dtype: str, unit: float) -> str:
    """Return the expression of decision p as a number."""
    return "decisions[p]" if dtype == "float32" else f"(float)decisions[p] * {write_float(unit)}"


def _write_sigmoids(program: Program, calibration: Calibration) -> None:
    """Add ``@curve``: the probabilities of the second and of the first class of a binary problem."""
    curves = [curve for curve in calibration.curves if isinstance(curve, SigmoidCurve)]
    program.array("slopes", np.array([curve.slope for curve in curves], np.float32))
    program.array("offsets", np.array([curve.offset for curve in curves], np.float32))
    program.function(
        """
/* Probability of the class of positive decisions, and of the other one. */
static void @curve(int p, float decision, float *second, float *first)
{
    float t = @slopes[p] * decision + @offsets[p];
    float power = @exp(t < 0.0f ? t : -t);
    float likely = 1.0f / (1.0f + power);
    float unlikely = power / (1.0f + power);
    *second = t < 0.0f ? unlikely : likely;
    *first = t < 0.0f ? likely : unlikely;
}
"""
    )


def _write_thresholds(program: Program, calibration: Calibration) -> None:
    """Add ``@curve`` for isotonic curves: linear between thresholds, constant beyond the ends."""
    curves = [curve for curve in calibration.curves if isinstance(curve, StepCurve)]
    starts = np.cumsum([0, *(len(curve.decisions) for curve in curves)])
    program.array("curve_starts", starts.astype(np.uint32))
    program.array(
        "thresholds", np.concatenate([curve.decisions for curve in curves]).astype(np.float32)
    )
    program.array(
        "levels", np.concatenate([curve.probabilities for curve in curves]).astype(np.float32)
    )
    program.function(
        """
/* Probability of the class of positive decisions, and of the other one. */
static void @curve(int p, float decision, float *second, float *first)
{
    uint32_t low = @curve_starts[p];
    uint32_t high = @curve_starts[p + 1] - 1;
    float level = @levels[low];
    if (decision >= @thresholds[high]) {
        level = @levels[high];
    } else if (decision > @thresholds[low]) {
        while (high - low > 1) {
            uint32_t middle = low + (high - low) / 2;
            if (@thresholds[middle] <= decision) {
                low = middle;
            } else {
                high = middle;
            }
        }
        float share = (decision - @thresholds[low]) / (@thresholds[high] - @thresholds[low]);
        level = @levels[low] + share * (@levels[high] - @levels[low]);
    }
    *second = level;
    *first = 1.0f - level;
}
"""
    )


def _write_coupling(program: Program, calibration: Calibration, dtype: str, unit: float) -> None:
    """Add ``@calibrate``: from the probabilities of binary problems to those of classes."""
    value = _write_value(dtype, unit)
    head = f"void @calibrate(const {name_type(dtype)} *decisions, float *probabilities)\n{{\n"
    if calibration.coupling == "binary":
        body = f"    int p = 0;\n    @curve(p, {value}, &probabilities[1], &probabilities[0]);\n"
    elif calibration.coupling == "rest":
        body = f"""    float other, total = 0.0f;
    for (int p = 0; p < @@_N_CLASSES; p++) {{
        @curve(p, {value}, &probabilities[p], &other);
        total += probabilities[p];
    }}
    for (int p = 0; p < @@_N_CLASSES; p++) {{
        probabilities[p] = total > 0.0f ? probabilities[p] / total : 1.0f / (float)@@_N_CLASSES;
    }}
"""
    else:
        body = _write_pairs(program, calibration.n_classes, value)
    program.function(f"{head}{body}}}\n")


def _write_pairs(program: Program, n_classes: int, value: str) -> str:
    """Return the body of ``@calibrate`` for one-vs-one problems.

    The vector of probabilities is the solution p of ``(Q + e e') p = e`` divided by its sum, where Q
    is the matrix of Wu, Lin and Weng (Eq. 20) and e are ones. That is their Eq. 21: on the plane
    ``e'p = 1`` the term ``e e'`` adds a constant to the objective ``p'Qp``. The matrix is positive
    definite, so that elimination needs no pivots.
    """
    program.array("couples", np.array(class_pairs(n_classes), np.uint16))
    program.stack += 8 * n_classes * (n_classes + 1)
    least = write_float(LEAST_PROBABILITY)
    return f"""    double system[@@_N_CLASSES][@@_N_CLASSES + 1];
    double total = 0.0;
    for (int a = 0; a < @@_N_CLASSES; a++) {{
        for (int b = 0; b <= @@_N_CLASSES; b++) {{
            system[a][b] = 1.0;
        }}
    }}
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        int a = @couples[2 * p], b = @couples[2 * p + 1];
        float first, second;
        @curve(p, {value}, &second, &first);
        double of_a = (double)(first < {least} ? {least} : first);
        double of_b = (double)(second < {least} ? {least} : second);
        system[a][a] += of_b * of_b;
        system[b][b] += of_a * of_a;
        system[a][b] -= of_a * of_b;
        system[b][a] -= of_a * of_b;
    }}
    for (int s = 0; s < @@_N_CLASSES; s++) {{
        for (int a = s + 1; a < @@_N_CLASSES; a++) {{
            double factor = system[a][s] / system[s][s];
            for (int b = s; b <= @@_N_CLASSES; b++) {{
                system[a][b] -= factor * system[s][b];
            }}
        }}
    }}
    for (int a = @@_N_CLASSES - 1; a >= 0; a--) {{
        double share = system[a][@@_N_CLASSES];
        for (int b = a + 1; b < @@_N_CLASSES; b++) {{
            share -= system[a][b] * system[b][@@_N_CLASSES];
        }}
        system[a][@@_N_CLASSES] = share / system[a][a];
    }}
    for (int a = 0; a < @@_N_CLASSES; a++) {{
        double share = system[a][@@_N_CLASSES];
        total += share > 0.0 ? share : 0.0;
    }}
    for (int a = 0; a < @@_N_CLASSES; a++) {{
        double share = system[a][@@_N_CLASSES];
        probabilities[a] = (float)(share > 0.0 ? share / total : 0.0);
    }}
"""


def _write_softmax(program: Program, calibration: Calibration, dtype: str, unit: float) -> None:
    """Add ``@calibrate`` for a common factor on one-vs-rest decisions."""
    curve = calibration.curves[0]
    assert isinstance(curve, SigmoidCurve)
    value = _write_value(dtype, unit)
    program.function(
        f"""
void @calibrate(const {name_type(dtype)} *decisions, float *probabilities)
{{
    float largest = 0.0f, total = 0.0f;
    for (int p = 0; p < @@_N_CLASSES; p++) {{
        probabilities[p] = {write_float(curve.slope)} * ({value});
        largest = p == 0 || probabilities[p] > largest ? probabilities[p] : largest;
    }}
    for (int p = 0; p < @@_N_CLASSES; p++) {{
        probabilities[p] = @exp(probabilities[p] - largest);
        total += probabilities[p];
    }}
    for (int p = 0; p < @@_N_CLASSES; p++) {{
        probabilities[p] /= total;
    }}
}}
"""
    )


def _write_predict(program: Program, dtype: str) -> None:
    program.function(
        f"void @predict_proba(const float *x, float *probabilities)\n{{\n"
        f"    {name_type(dtype)} decisions[@@_N_FUNCTIONS];\n{write_steps(dtype)}\n"
        "    @calibrate(decisions, probabilities);\n}\n"
    )
