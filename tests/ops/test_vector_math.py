"""Vector forms of the C library's functions: within 4 ULP, and right at the edges."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ops.test_table import EXACT, FLAGS, TABLE, edges, loop, operands_of

from weft.ops.dtypes import DType
from weft.ops.table import (
    TYPEDEFS,
    cast_spell,
    libm_functions,
    libm_prototype,
    libmvec_since,
    needed_helpers,
)

VERSION = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
GLIBC = tuple(map(int, (VERSION or "none 0.0").split()[1].split(".")))
NAMES = sorted(
    name
    for name, op in TABLE.items()
    if name not in EXACT and DType.F64 in op.accepts
    for functions in [op.libm((DType.F64,) * op.arity)]
    if functions and all((libmvec_since(f) or (9, 9)) <= GLIBC for f in functions)
)
CASES = [(name, dtype) for name in NAMES for dtype in (DType.F32, DType.F64)]

# A range in which each function is neither constant nor overflows, for random operands.
RANGES = {
    "acos": (-1, 1), "asin": (-1, 1), "atanh": (-1, 1), "acosh": (1, 1e6), "log": (1e-30, 1e30),
    "log2": (1e-30, 1e30), "log10": (1e-30, 1e30), "log1p": (-0.999, 1e6), "sin": (-1e4, 1e4),
    "cos": (-1e4, 1e4), "tan": (-1e3, 1e3), "pow": (0.01, 20), "erfc": (-3, 8),
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("vector")
    parts = []
    for name, dtype in CASES:
        dtypes = (dtype,) * TABLE[name].arity
        text = loop(f"{name}_{dtype}", TABLE[name].spell("c", dtypes), dtypes, dtype)
        parts.append(text.replace("    for", '    _Pragma("omp simd")\n    for'))
    body = "\n".join(parts)
    helpers = "\n".join(needed_helpers("c", body))
    prototypes = "\n".join(
        "#pragma omp declare simd notinbranch\n" * (libmvec_since(name) is not None)
        + libm_prototype(name)
        for name in libm_functions(helpers + body)
    )
    (folder / "v.c").write_text("\n".join((TYPEDEFS, prototypes, helpers, body)))
    command = ["gcc", "-O3", *FLAGS[1:], "-fopenmp-simd", "-shared", "-fPIC", "v.c", "-o", "v.so"]
    made = subprocess.run([*command, "-lmvec", "-lm"], cwd=folder, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no libmvec here: {made.stderr[-200:]}")
    symbols = subprocess.run(["nm", "-D", "v.so"], cwd=folder, capture_output=True, text=True)
    assert "_ZGV" in symbols.stdout, "nothing was vectorised"
    return ctypes.CDLL(str(folder / "v.so"))


def random_values(name: str, dtype: DType, count: int) -> Any:
    low, high = RANGES.get(name, (-20, 20))
    generator = np.random.default_rng(len(name))
    return generator.uniform(low, high, count).astype(dtype.numpy)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_vector_forms_agree_with_numpy(library: ctypes.CDLL, name: str, dtype: DType) -> None:
    operation = TABLE[name]
    if operation.arity == 1:
        arguments = [np.concatenate((edges(dtype), random_values(name, dtype, 2000)))]
    else:
        grid = [column.ravel() for column in np.meshgrid(edges(dtype), edges(dtype))]
        more = np.abs(random_values(name, dtype, 2000)), random_values(name, dtype, 2000)[::-1]
        arguments = [np.concatenate(pair) for pair in zip(grid, more, strict=True)]
    out = np.empty(arguments[0].shape, dtype.numpy)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arguments, out)]
    getattr(library, f"{name}_{dtype}")(*pointers, ctypes.c_int64(out.size))
    # Double precision is the truth for float32; for float64 NumPy itself is within an ULP or so.
    wide = [a.astype(np.float64) for a in arguments]
    wanted = np.asarray(operation.numpy(*wide))
    with np.errstate(all="ignore"):
        nearest = wanted.astype(dtype.numpy)
        scale = nearest
        if name == "logaddexp":  # a sum, in which what is large may cancel
            scale = np.maximum(np.abs(nearest), np.maximum(*map(np.abs, arguments)))
        units = np.abs(out.astype(np.float64) - wanted) / np.spacing(np.abs(scale))
    good = (units <= 5) | (out == nearest) | (np.isnan(out) & np.isnan(nearest))
    wrong = np.flatnonzero(~good)[:6]
    detail = [(*(a[k] for a in arguments), out[k], wanted[k]) for k in wrong]
    assert good.all(), f"{name} {dtype}: operands, C, NumPy: {detail}"


SIMD = ["-O3", "-march=x86-64-v4", *FLAGS[2:], "-fopenmp-simd"]
# Else equal loops become one, and loops that copy become calls of memcpy.
SIMD += ["-fno-ipa-icf", "-fno-tree-loop-distribute-patterns", "-fopt-info-vec-optimized"]
COMMON = (
    DType.BOOL, DType.U8, DType.I32, DType.I64, DType.F32, DType.F64, DType.C64, DType.C128,
)  # fmt: skip


def test_every_cheap_operation_and_cast_vectorises(tmp_path: Path) -> None:
    loops = []
    for name, operation in TABLE.items():
        for dtype in operation.accepts & set(COMMON):
            dtypes = operands_of(operation, dtype)
            result = operation.result(dtypes)
            text = operation.spell("c", dtypes)
            moves = result.is_complex and text == "{0}"  # pairs that are moved as they are
            if operation.cost == "cheap" and not moves and (name, result.kind) != ("sign", "c"):
                loops.append((f"{name}_{dtype}", loop(f"{name}_{dtype}", text, dtypes, result)))
    for source, target in itertools.product(COMMON, repeat=2):
        if source is target and source.is_complex:
            continue
        name = f"cast_{source}_{target}"
        loops.append((name, loop(name, cast_spell("c", source, target), (source,), target)))
    body = "\n".join(text for _, text in loops)
    helpers = "\n".join(needed_helpers("c", body))
    parts = [TYPEDEFS, *map(libm_prototype, libm_functions(helpers + body)), helpers]
    lines = "\n".join(parts).count("\n") + 2
    ranges = {}
    for name, text in loops:
        parts.append(text.replace("    for", '    _Pragma("omp simd") for'))
        ranges[name] = range(lines, lines + text.count("\n") + 1)
        lines += text.count("\n") + 1
    (tmp_path / "s.c").write_text("\n".join(parts))
    command = ["gcc", *SIMD, "-c", "s.c", "-o", "s.o"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    if made.returncode or "optimized" not in made.stderr:
        pytest.skip("no gcc for x86-64 here")
    found = set(map(int, re.findall(r"s\.c:(\d+):\d+: optimized: loop vec", made.stderr)))
    assert [name for name, where in ranges.items() if not found & set(where)] == []
