"""Loops over the indices of an array, by NumPy's iterators, as the loops in loops that they are.

    for i, j in np.ndindex(a.shape): ..          =>  for i in range(..): for j in range(..): ..
    for (i, j), x in np.ndenumerate(a): ..       =>  for i in ..: for j in ..: x = a[i, j]; ..

So their indices are affine, as all analyses want them. Loops that may be left by `break`, and
such whose dimensions are not written out, go over one number (`iterables`).
"""

from __future__ import annotations

import ast
from types import FunctionType

import numpy as np

from weft.kernel.outside import outside


class AsNests(ast.NodeTransformer):
    """Of a function's loops, those that are so."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.count = 0

    def visit_For(self, node: ast.For) -> ast.For | list[ast.stmt]:
        self.generic_visit(node)
        call = node.iter
        if not isinstance(call, ast.Call) or call.keywords or node.orelse or _may_be_left(node):
            return node
        if not call.args or any(isinstance(argument, ast.Starred) for argument in call.args):
            return node
        function = outside(self.function, call.func)
        if function is np.ndindex and isinstance(node.target, ast.Tuple):
            return self._over_indices(node, call, node.target)
        if function is np.ndenumerate and isinstance(node.target, ast.Tuple):
            match node.target.elts:
                case [ast.Tuple() as indices, element] if len(call.args) == 1:
                    return self._over_elements(node, call.args[0], indices, element)
        return node

    def _over_indices(
        self, node: ast.For, call: ast.Call, target: ast.Tuple
    ) -> ast.For | list[ast.stmt]:
        if len(call.args) not in (1, len(target.elts)) or not _are_names(target):
            return node
        given = call.args[0] if len(call.args) == 1 else ast.Tuple(call.args, ast.Load())
        if len(call.args) == len(target.elts) == 1:
            return node  # a number of indices, or a shape of one dimension
        return _placed(self._nest(given, target, node.body), node)

    def _over_elements(
        self, node: ast.For, given: ast.expr, indices: ast.Tuple, element: ast.expr
    ) -> ast.For | list[ast.stmt]:
        if not _are_names(indices):
            return node
        array = self._held(given)
        shape = ast.Attribute(_read(array), "shape", ast.Load())
        where = [ast.Name(name.id, ast.Load()) for name in _names(indices)]
        key = ast.Tuple([*where], ast.Load()) if len(where) > 1 else where[0]
        value = ast.Subscript(_read(array), key, ast.Load())
        body = [ast.Assign([element], value), *node.body]
        return _placed([array, *self._nest(shape, indices, body)], node)

    def _held(self, value: ast.expr) -> ast.Assign:
        """A variable of a name that no user can write."""
        self.count += 1
        return ast.Assign([ast.Name(f".of{self.count}", ast.Store())], value)

    def _nest(
        self, shape: ast.expr, target: ast.Tuple, body: list[ast.stmt]
    ) -> list[ast.stmt]:
        """Loops over all indices of a shape, which has as many as there are in the target."""
        self.count += 1
        names, inner = _names(target), body
        lengths = [f".of{self.count}.{axis}" for axis in range(len(names))]
        held: list[ast.expr] = [ast.Name(length, ast.Store()) for length in lengths]
        for name, length in reversed(list(zip(names, lengths, strict=True))):
            bound = ast.Name(length, ast.Load())
            over = ast.Call(ast.Name("range", ast.Load()), [bound], [])
            inner = [ast.For(name, over, inner, [], None)]
        return [ast.Assign([ast.Tuple(held, ast.Store())], shape), *inner]


def _names(target: ast.Tuple) -> list[ast.Name]:
    return [name for name in target.elts if isinstance(name, ast.Name)]


def _are_names(target: ast.Tuple) -> bool:
    return len(_names(target)) == len(target.elts) > 0


def _read(held: ast.Assign) -> ast.Name:
    (target,) = held.targets
    assert isinstance(target, ast.Name)
    return ast.Name(target.id, ast.Load())


def _may_be_left(loop: ast.For) -> bool:
    """Whether a `break` of its own is in a loop; a `return` leaves all loops alike."""

    def within(nodes: list[ast.stmt]) -> bool:
        for node in nodes:
            if isinstance(node, ast.Break):
                return True
            if isinstance(node, ast.If | ast.With) and within(node.body):
                return True
            if within(getattr(node, "orelse", [])):  # of a loop, too
                return True
        return False

    return within(loop.body)


def _placed(made: list[ast.stmt], at: ast.For) -> list[ast.stmt]:
    return [ast.fix_missing_locations(ast.copy_location(statement, at)) for statement in made]
