"""FUN evaluated one element at a time: slow, plain, and independent of the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.errors import OutOfBoundsError
from weft.fun import nodes as fun
from weft.ops import routines, table
from weft.sizes import Size


def evaluate(
    program: fun.Program, arguments: Sequence[Any], sizes: dict[str, int]
) -> tuple[Any, ...]:
    """The results of a program of which all sizes are given."""
    values: dict[str, Any] = dict(sizes)
    for derived in program.derived:
        values[derived.name] = derived.evaluate(values)
    for param, argument in zip(program.params, arguments, strict=True):
        values[param.name] = argument
    with np.errstate(all="ignore"):
        return tuple(_body(program.body, values))


def _body(body: fun.Body, values: dict[str, Any]) -> list[Any]:
    for let in body.statements:
        results = _expr(let.expr, values)
        for var, result in zip(let.pattern, results, strict=True):
            if isinstance(var.type, fun.Array):
                result = np.asarray(result)
                assert result.shape == tuple(_size(s, values) for s in var.type.shape), var.name
            assert np.asarray(result).dtype == var.type.dtype.numpy, var.name
            values[var.name] = result
    return [_atom(result, values) for result in body.results]


def _atom(atom: fun.Atom, values: dict[str, Any]) -> Any:
    if isinstance(atom, fun.Const):
        return atom.dtype.numpy.type(atom.value)
    return values[atom.name]


def _size(size: Size, values: dict[str, Any]) -> int:
    return size.evaluate({name: int(values[name]) for name in size.variables()})


def _read(array: Any, index: Sequence[int]) -> Any:
    for at, extent in zip(index, array.shape, strict=True):
        if not 0 <= at < extent:
            raise OutOfBoundsError(f"{tuple(index)} in {array.shape}")
    return array[tuple(index)]


def _padded(at: int, rule: fun.Boundary, lower: int, upper: int) -> int:
    """Where numpy.pad takes the element at `at` from (by padding a row of indices)."""
    before, after = max(lower - at, 0), max(at - upper + 1, 0)
    row = np.pad(np.arange(lower, upper), (before, after), mode=rule.kind)
    return int(row[at - lower + before])


def _index(expr: fun.Index, values: dict[str, Any]) -> Any:
    index = [_size(i, values) for i in expr.indices]
    constant = None
    for axis, rule in enumerate(expr.boundary):
        if rule is None:
            continue
        lower, upper = _size(rule.lower, values), _size(rule.upper, values)
        if lower <= index[axis] < upper:
            continue
        if rule.kind == "constant":
            constant = rule.value
        else:
            index[axis] = _padded(index[axis], rule, lower, upper)
    return _atom(constant, values) if constant else _read(values[expr.array.name], index)


def _lambda(function: fun.Lambda, arguments: list[Any], values: dict[str, Any]) -> list[Any]:
    inner = dict(values)
    inner.update(zip((p.name for p in function.params), arguments, strict=True))
    return _body(function.body, inner)


def _space(expr: fun.ParallelExpr, values: dict[str, Any]) -> tuple[tuple[int, ...], Any]:
    """The extents, and a generator of (index, results of the body)."""
    extents = tuple(max(_size(r.extent, values), 0) for r in expr.space)

    def results() -> Any:
        for index in np.ndindex(*extents):
            inner = dict(values)
            for dimension, at in zip(expr.space, index, strict=True):
                inner[dimension.index.name] = np.int64(at)
            yield index, _body(expr.body, inner)

    return extents, results()


def _parallel(expr: fun.ParallelExpr, values: dict[str, Any]) -> list[Any]:
    extents, results = _space(expr, values)
    types = [result.type for result in expr.body.results]
    match expr:
        case fun.Kernel():
            arrays = []
            for type_ in types:
                own = type_.shape if isinstance(type_, fun.Array) else ()
                shape = extents + tuple(_size(s, values) for s in own)
                arrays.append(np.empty(shape, type_.dtype.numpy))
            for index, row in results:
                for array, value in zip(arrays, row, strict=True):
                    array[index] = value
            return arrays
        case fun.Reduce(_, reduced, _, operator, neutral):
            kept = extents[: len(extents) - reduced]
            arrays = [np.full(kept, _atom(n, values), n.type.dtype.numpy) for n in neutral]
            for index, row in results:
                old = [array[index[: len(kept)]] for array in arrays]
                for array, value in zip(arrays, _lambda(operator, old + row, values), strict=True):
                    array[index[: len(kept)]] = value
            return arrays if kept else [array[()] for array in arrays]
        case fun.Scan(_, _, operator, initial, exclusive):
            arrays = [np.empty(extents, type_.dtype.numpy) for type_ in types]
            carry: list[Any] = []
            for index, row in results:
                carry = [_atom(i, values) for i in initial] if index[-1] == 0 else carry
                new = _lambda(operator, carry + row, values)
                for array, value in zip(arrays, carry if exclusive else new, strict=True):
                    array[index] = value
                carry = new
            return arrays
        case fun.Scatter(destinations, _, _, combine):
            arrays = [values[d.name].copy() for d in destinations]
            rank = arrays[0].ndim
            for _, row in results:
                at = tuple(map(int, row[:rank]))
                old = [_read(array, at) for array in arrays]
                new = row[rank:]
                if combine is not None:
                    new = _lambda(combine, old + new, values)
                for array, value in zip(arrays, new, strict=True):
                    array[at] = value
            return arrays


def _grid(dims: tuple[fun.Span | Size, ...], values: dict[str, Any], shape: Any) -> Any:
    """Index arrays of the elements of a slice."""
    axes, kept = [], []
    for axis, dim in enumerate(dims):
        if isinstance(dim, fun.Span):
            kept.append(axis)
            start = _size(dim.start, values)
            axes.append([start + k * dim.step for k in range(_size(dim.extent, values))])
        else:
            axes.append([_size(dim, values)])
    if all(axes):
        for axis, row in enumerate(axes):
            assert min(row) >= 0, "slice out of bounds"
            assert max(row) < shape[axis], "slice out of bounds"
    grid = np.ix_(*(np.array(row, dtype=np.int64) for row in axes))
    return grid, tuple(len(axes[axis]) for axis in kept)


def _lmad(offset: Size, dims: Any, values: dict[str, Any]) -> Any:
    index = np.full((1,) * len(dims), _size(offset, values))
    for axis, (extent, stride) in enumerate(dims):
        steps = np.arange(_size(extent, values)) * _size(stride, values)
        index = index + steps.reshape([-1 if a == axis else 1 for a in range(len(dims))])
    return index


def _expr(expr: fun.Expr, values: dict[str, Any]) -> list[Any]:
    match expr:
        case fun.Apply(operation, arguments):
            return [table.lookup(operation).numpy(*(_atom(a, values) for a in arguments))]
        case fun.Cast(dtype, argument):
            return [table.cast_numpy(dtype, _atom(argument, values))]
        case fun.SizeValue(size):
            return [np.int64(_size(size, values))]
        case fun.Index():
            return [_index(expr, values)]
        case fun.Slice(array, dims):
            grid, shape = _grid(dims, values, values[array.name].shape)
            return [values[array.name][grid].reshape(shape)]
        case fun.LmadSlice(array, offset, lmad_dims):
            return [values[array.name][_lmad(offset, lmad_dims, values)]]
        case fun.Permute(array, axes):
            return [np.transpose(values[array.name], axes)]
        case fun.Reshape(array, shape):
            return [values[array.name].reshape([_size(s, values) for s in shape])]
        case fun.Broadcast(atom, shape):
            return [np.broadcast_to(_atom(atom, values), [_size(s, values) for s in shape])]
        case fun.Concat(arrays, axis):
            return [np.concatenate([values[a.name] for a in arrays], axis)]
        case fun.Update(array, dims, value):
            new = values[array.name].copy()
            grid, shape = _grid(dims, values, new.shape)
            source = np.broadcast_to(_atom(value, values), shape)
            new[grid] = source.reshape(np.broadcast_shapes(*(g.shape for g in grid)))
            return [new]
        case fun.LmadUpdate(array, offset, lmad_dims, source_var):
            new = values[array.name].copy()
            new[_lmad(offset, lmad_dims, values)] = values[source_var.name]
            return [new]
        case fun.Copy(array):
            return [values[array.name].copy()]
        case fun.Empty(dtype, shape):
            return [np.full([_size(s, values) for s in shape], 99, dtype.numpy)]
        case fun.If(condition, then, otherwise):
            return _body(then if _atom(condition, values) else otherwise, values)
        case fun.Loop(params, initial, form, body):
            names = [param.name for param in params]
            values.update(zip(names, [_atom(i, values) for i in initial], strict=True))
            if isinstance(form, fun.For):
                for at in range(_size(form.lower, values), _size(form.upper, values)):
                    values[form.index.name] = np.int64(at)
                    values.update(zip(names, _body(body, values), strict=True))
            else:
                while _body(form.condition, values)[0]:
                    values.update(zip(names, _body(body, values), strict=True))
            return [values[name] for name in names]
        case fun.Call(routine, arguments, options):
            results = routines.routine(routine).run(
                *(np.asarray(_atom(a, values)) for a in arguments), **dict(options)
            )
            return [r if r.ndim else r[()] for r in results]
        case _:
            return _parallel(expr, values)
