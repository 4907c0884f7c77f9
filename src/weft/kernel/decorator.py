"""`weft.kernel` and `weft.prange`: what loop nests are marked with.

What compiles them is imported when the first function is marked.
"""

from __future__ import annotations

from typing import Any


def prange(*bounds: Any) -> range:
    """`range`, each of whose rounds may run at the same time as any other in `wf.kernel`.

    Parameters
    ----------
    *bounds : int
        As those of `range`: stop; start, stop; or start, stop, step.
    """
    return range(*bounds)


def kernel(function: Any = None, /) -> Any:
    """Compile a function of loops and NumPy operations that writes its arguments in place.

    The function's syntax tree is compiled, once for each pattern of arguments (dtypes, ranks):
    `for` over `range` and `weft.prange`, `while`, `if`, assignments to elements and slices,
    augmented assignments, `assert`, `raise`, NumPy's and math's functions, other functions.

    Parameters
    ----------
    function : callable, or str
        A function written in Python, whose parameters may have annotations (`weft.f64[:, :]`,
        `weft.i64`), and whose result may have one (`-> weft.f64`, `-> None`, `-> tuple[...]`);
        or such types as text, "f64[:, :], i64 -> None", for a decorator.

    Returns
    -------
    KernelFunction
        Called as the function is, with NumPy arrays, it does what the function does: arrays
        that the function writes are written in place.

    Raises
    ------
    UnsupportedError
        When called, for what cannot be compiled: its line and column, and what to write instead.
    DTypeError, ShapeError
        When called, for arguments and results that are not what types say.

    Notes
    -----
    With `WEFT_DISABLE=1` in the environment the plain function runs. That is to be set before
    the first call: repeated calls do not ask.

    An argument that is written in part is updated where it lies, as far as it is proved that
    nothing else is read there later; otherwise what is read is copied first. Arguments that are
    one array are one; where one that is written shares a part of another, the plain function
    runs. When a call fails, an array that it writes may hold what was written until then,
    as the plain function would leave it, though not always of the same elements.

    What the function takes from outside (numbers, functions and arrays that are globals, in a
    closure, or attributes of `self`) is that of the first call with arguments of a kind; of such
    arrays, the elements are read at each call. An argument that is returned is itself; other
    results share no memory with arguments: of views, they are copies. Numbers are as NumPy's:
    integers of 64 bits wrap around, and divisions by zero give inf, nan or 0.
    A range whose step is computed, as 0, has no rounds.

    `assert` and `raise` raise their errors, with a note of their place. Where that hangs on data,
    they do so when the run has ended: the first in the source, if several did. What the kernel
    writes after them, it has written then. Of a message that is computed, they give the source.

    Examples
    --------
    >>> @kernel
    ... def matmul(a, b, c):
    ...     for i in prange(c.shape[0]):
    ...         for j in prange(c.shape[1]):
    ...             acc = 0.0
    ...             for k in range(a.shape[1]):
    ...                 acc += a[i, k] * b[k, j]
    ...             c[i, j] = acc
    """
    from weft.kernel.function import KernelFunction

    if isinstance(function, str):
        text = function
        return lambda f: KernelFunction(f, text)
    if function is None:
        return kernel
    return KernelFunction(function)
