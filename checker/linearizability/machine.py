"""What compiled loops take from the machine: several bytes at once, and where the lowest bit is."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

WORD: Final = 7
"""So many bytes make a word for the loops."""


@cache
def intrinsics() -> tuple[Any, ...]:
    """The compiled twins of `word` and `lowest` in `checker.formats.kernel`, for `compiled_kernel`.

    Raises:
        ImportError: numba is not installed.
    """
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    def word(typing: Any, data: Any, at: Any) -> Any:
        """`WORD` bytes of an array from `at` on, aligned or not; the machine reads one more."""

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            kind = signature.args[0]
            array = context.make_array(kind)(context, builder, given[0])
            place = builder.gep(array.data, [given[1]])
            pointer = builder.bitcast(place, ir.IntType(64).as_pointer())
            read = builder.load(pointer, align=1)
            return builder.and_(read, ir.Constant(ir.IntType(64), (1 << 8 * WORD) - 1))

        return types.int64(data, types.int64), generate

    def lowest(typing: Any, bits: Any) -> Any:
        """In which byte the lowest bit is that is set."""

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            zeros = builder.cttz(given[0], ir.Constant(ir.IntType(1), 1))
            return builder.lshr(zeros, ir.Constant(ir.IntType(64), 3))

        return types.int64(types.int64), generate

    return intrinsic(word), intrinsic(lowest)
