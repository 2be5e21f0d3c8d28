"""ONNX graphs that are being built: nodes, constants, and values with the arithmetic of arrays."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

#: Types that operators return whatever they take.
RESULTS = {"Greater": bool, "GreaterOrEqual": bool, "Equal": bool, "IsNaN": bool} | dict.fromkeys(
    ("ArgMax", "NonZero", "Shape"), np.int64
)


class Graph:
    """Nodes and constants of a graph that is being built.

    Parameters
    ----------
    onnx : module
        The package onnx.
    dtype : dtype
        Type of kernel values.
    outer : Graph, optional
        The graph that contains this one as the body of a loop; it keeps the constants.
    """

    def __init__(self, onnx: Any, dtype: np.dtype[Any], outer: "Graph | None" = None) -> None:
        self.onnx = onnx
        self.dtype = dtype
        self.nodes: list[Any] = []
        self.constants: list[Any] = [] if outer is None else outer.constants
        self.numbers: Iterator[int] = count() if outer is None else outer.numbers

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        output = self.name(op)
        self.nodes.append(self.onnx.helper.make_node(op, inputs, [output], **attributes))
        return output

    def constant(self, values: Any) -> "Value":
        """Add a constant array and return it."""
        values = np.array(values, order="C")
        name = self.name("constant")
        self.constants.append(self.onnx.numpy_helper.from_array(values, name))
        return Value(self, name, values.dtype)

    def name(self, stem: str) -> str:
        """Return a name that no other part of the graph has."""
        return f"{stem}_{next(self.numbers)}"

    def kind(self, dtype: np.dtype[Any]) -> int:
        """Return ONNX's number for a type."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(dtype))


@dataclass(frozen=True)
class Value:
    """An array that a graph computes; arithmetic with it adds nodes.

    The other operand may be a number or an array, which is converted to the type of this value. An
    array of integers keeps its type.
    """

    graph: Graph
    name: str
    dtype: np.dtype[Any]

    def apply(self, op: str, *others: Any, **attributes: Any) -> "Value":
        """Return the result of an operator whose first input is this value."""
        names = [self.name, *(self._operand(other).name for other in others)]
        dtype = np.dtype(RESULTS.get(op, self.dtype))
        return Value(self.graph, self.graph.add(op, *names, **attributes), dtype)

    def _operand(self, other: Any) -> "Value":
        if isinstance(other, Value):
            return other
        is_index = isinstance(other, np.ndarray) and other.dtype.kind == "i"
        return self.graph.constant(other if is_index else np.asarray(other, self.dtype))

    def __add__(self, other: Any) -> "Value":
        return self.apply("Add", other)

    def __sub__(self, other: Any) -> "Value":
        return self.apply("Sub", other)

    def __mul__(self, other: Any) -> "Value":
        return self.apply("Mul", other)

    def __truediv__(self, other: Any) -> "Value":
        return self.apply("Div", other)

    def __matmul__(self, other: Any) -> "Value":
        return self.apply("MatMul", other)

    def cast(self, dtype: Any) -> "Value":
        """Return the value in another type."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        name = self.graph.add("Cast", self.name, to=self.graph.kind(dtype))
        return Value(self.graph, name, dtype)

    def narrow(self) -> "Value":
        """Return the value in the type of kernel values."""
        return self.cast(self.graph.dtype)

    def total(self, *, keep: bool = False) -> "Value":
        """Return the sum over the second axis."""
        return self.apply("ReduceSum", np.array([1]), keepdims=int(keep))

    def first_largest(self) -> "Value":
        """Return the column of the largest number of every row, the first of several."""
        return self.apply("ArgMax", axis=1, keepdims=0)

    def top(self, n: int) -> tuple["Value", "Value"]:
        """Return the largest numbers of every row in descending order, and their columns."""
        names = [self.graph.name("TopK") for _ in range(2)]
        count = self.graph.constant(np.array([n]))
        node = self.graph.onnx.helper.make_node("TopK", [self.name, count.name], names, axis=1)
        self.graph.nodes.append(node)
        largest, columns = names
        return Value(self.graph, largest, self.dtype), Value(
            self.graph, columns, np.dtype(np.int64)
        )

    def each_row(self, width: int, function: Callable[["Value"], "Value"]) -> "Value":
        """Return the results, ``width`` numbers each, of a function of every row.

        The graph has a loop, not a scan, because a scan fails without rows in onnxruntime.
        """
        make = self.graph.onnx.helper.make_graph
        body = Graph(self.graph.onnx, self.graph.dtype, self.graph)
        number = Value(body, body.name("number"), np.dtype(np.int64))
        going = Value(body, body.name("going"), np.dtype(bool))
        row = Value(body, body.add("Gather", self.name, number.name), self.dtype)
        outputs = [going.apply("Identity").declare([]), function(row).declare([width])]
        loop = make(body.nodes, "row", [number.declare([]), going.declare([])], outputs)
        n_rows = self.apply("Shape", end=1)
        return Value(self.graph, self.graph.add("Loop", n_rows.name, "", body=loop), self.dtype)

    def rename(self, name: str) -> "Value":
        """Return the value under a given name."""
        node = self.graph.onnx.helper.make_node("Identity", [self.name], [name])
        self.graph.nodes.append(node)
        return Value(self.graph, name, self.dtype)

    def declare(self, shape: list[int | None]) -> Any:
        """Return the declaration of the value as an input or output."""
        kind = self.graph.kind(self.dtype)
        return self.graph.onnx.helper.make_tensor_value_info(self.name, kind, shape)
