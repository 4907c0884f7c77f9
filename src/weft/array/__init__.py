"""The lazy array: the class, how it is made, indexed, updated and operated on."""

from weft.array import operators, selected
from weft.array.lazy import Array
from weft.array.making import asarray, node_of, source_array, strong

operators.install()
selected.install()

__all__ = ["Array", "asarray", "node_of", "source_array", "strong"]
