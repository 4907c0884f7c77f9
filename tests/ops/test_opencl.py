"""The OpenCL spellings on an OpenCL device (PoCL is enough), against NumPy."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from ops.test_table import EXACT, TABLE, arguments_of, edges

from weft.ops.dtypes import DType
from weft.ops.table import cast_numpy, cast_spell, needed_helpers, type_name

cl: Any = pytest.importorskip("pyopencl")

Group = tuple[DType, int]  # the dtype of operands, and their number
LOOSE = {"f32": 64, "f64": 64}  # ULP: what OpenCL itself promises, with room for compositions


@pytest.fixture(scope="module")
def queue() -> Any:
    try:
        context = cl.create_some_context(interactive=False)
    except cl.Error as error:
        pytest.skip(f"no OpenCL device: {error}")
    if "cl_khr_fp64" not in context.devices[0].extensions:
        pytest.skip("no float64 on this device")
    return cl.CommandQueue(context)


def groups() -> dict[Group, list[str]]:
    found: dict[Group, list[str]] = defaultdict(list)
    for name, operation in TABLE.items():
        for dtype in operation.accepts:
            if not (dtype.is_complex or name in ("complex", "where")):
                found[dtype, operation.arity].append(name)
    return dict(sorted(found.items(), key=str))


def memory_type(dtype: DType) -> str:
    return "uchar" if dtype is DType.BOOL else type_name("opencl", dtype)


def kernel_of(templates: list[tuple[str, DType]], dtype: DType, arity: int) -> str:
    """A kernel that computes each template, of a result dtype, into an array of its own."""
    params = [f"global const {memory_type(dtype)} *a{k}" for k in range(arity)]
    params += [f"global {memory_type(r)} *out{n}" for n, (_, r) in enumerate(templates)]
    loads = " ".join(f"const {type_name('opencl', dtype)} x{k} = a{k}[i];" for k in range(arity))
    operands = [f"x{k}" for k in range(arity)]
    stores = "\n".join(
        f"    out{number}[i] = {template.format(*operands)};"
        for number, (template, _) in enumerate(templates)
    )
    helpers = "\n".join(needed_helpers("opencl", stores))
    return (
        "#pragma OPENCL FP_CONTRACT OFF\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
        f"{helpers}\nkernel void run({', '.join(params)}) {{\n"
        f"    long i = get_global_id(0);\n    {loads}\n{stores}\n}}\n"
    )


def run(queue: Any, text: str, arguments: list[Any], results: list[DType]) -> list[Any]:
    flags = cl.mem_flags
    buffers = [
        cl.Buffer(queue.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=a)
        for a in arguments
    ]
    outs = [np.empty(arguments[0].size, result.numpy) for result in results]
    targets = [cl.Buffer(queue.context, flags.WRITE_ONLY, out.nbytes) for out in outs]
    kernel = cl.Program(queue.context, text).build().run
    kernel(queue, (arguments[0].size,), None, *buffers, *targets)
    for out, target in zip(outs, targets, strict=True):
        cl.enqueue_copy(queue, out, target)
    return outs


@pytest.mark.parametrize(
    ("group", "names"),
    groups().items(),
    ids=lambda p: "" if isinstance(p, list) else f"{p[0]}-{p[1]}",
)
def test_opencl_agrees_with_numpy(queue: Any, group: Group, names: list[str]) -> None:
    dtype, arity = group
    arguments = arguments_of(TABLE[names[0]], dtype)
    dtypes = (dtype,) * arity
    results = [TABLE[name].result(dtypes) for name in names]
    texts = [TABLE[name].spell("opencl", dtypes) for name in names]
    text = kernel_of(list(zip(texts, results, strict=True)), dtype, arity)
    out = run(queue, text, arguments, results)
    for name, got in zip(names, out, strict=True):
        wanted = np.asarray(TABLE[name].numpy(*arguments))
        same = (got == wanted) | ((got != got) & (wanted != wanted))
        if got.dtype.kind == "f" and name not in EXACT:
            with np.errstate(all="ignore"):
                units = np.abs(got - wanted) / np.spacing(np.abs(wanted))
            same |= units <= LOOSE[dtype.value]
            same |= np.abs(wanted) < 1e-30  # near what devices may flush to zero
        wrong = np.flatnonzero(~same)[:4]
        detail = [(*(a[k] for a in arguments), got[k], wanted[k]) for k in wrong]
        assert same.all(), f"{name} {dtype}: operands, OpenCL, NumPy: {detail}"


@pytest.mark.parametrize("source", [d for d in DType if not d.is_complex], ids=str)
def test_opencl_casts_agree(queue: Any, source: DType) -> None:
    values = edges(source)
    targets = [target for target in DType if not target.is_complex]
    casts = [(cast_spell("opencl", source, target), target) for target in targets]
    out = run(queue, kernel_of(casts, source, 1), [values], targets)
    for target, got in zip(targets, out, strict=True):
        wanted = np.asarray(cast_numpy(target, values))
        np.testing.assert_array_equal(got, wanted, err_msg=f"{source} to {target}")
