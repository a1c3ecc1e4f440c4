"""Element-wise operators as CUDA C, and the few definitions that generated kernels begin with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from egraph_opt.ir import AttrValue

STORED: Mapping[str, str] = MappingProxyType(
    {
        "float32": "float", "float64": "double", "float16": "__half", "bfloat16": "__nv_bfloat16", "bool": "bool",
        "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
        "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
    }
)  # fmt: skip
"""The C type of an element in memory."""

COMPUTED: Mapping[str, str] = MappingProxyType({**STORED, "float16": "float", "bfloat16": "float"})
"""The C type that arithmetic is done in: 16-bit floats are computed in 32 bits."""

LAUNCHED = """
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;"); }
__device__ __forceinline__ void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
__device__ __forceinline__ void let_next_begin() {}
__device__ __forceinline__ void wait_for_previous() {}
#endif
"""
"""What every kernel does first: see ``launch``."""

SEVERAL = """
template <typename T, int N> struct __align__(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Several { T e[N]; };
"""
"""Elements that lie side by side: see ``lanes``."""

_DEFINITIONS = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define INF __int_as_float(0x7f800000)
__device__ __forceinline__ float up(__half v) { return __half2float(v); }
__device__ __forceinline__ float up(__nv_bfloat16 v) { return __bfloat162float(v); }
template <typename T> __device__ __forceinline__ T up(T v) { return v; }
template <typename T> struct Down {
  template <typename S> static __device__ __forceinline__ T of(S v) { return (T)v; } };
template <> struct Down<__half> { static __device__ __forceinline__ __half of(float v) { return __float2half_rn(v); } };
template <> struct Down<__nv_bfloat16> {
  static __device__ __forceinline__ __nv_bfloat16 of(float v) { return __float2bfloat16_rn(v); } };
template <typename T> __device__ __forceinline__ T larger(T a, T b) { return (a > b || a != a) ? a : b; }
template <typename T> __device__ __forceinline__ T smaller(T a, T b) { return (a < b || a != a) ? a : b; }
template <typename T> __device__ __forceinline__ T remainder_of(T a, T b, bool as_divisor) {
  const T d = b == 0 ? (T)1 : b, r = (T)(a % d); return as_divisor && r != 0 && (r < 0) != (d < 0) ? (T)(r + d) : r; }
template <typename T> __device__ __forceinline__ T sum2(T a, T b) { return a + b; }
template <typename T> __device__ __forceinline__ T times2(T a, T b) { return a * b; }
#define REDUCE(NAME, JOIN) \\
template <typename T> __device__ __forceinline__ T warp_##NAME(T v) { \\
  _Pragma("unroll") for (int o = 16; o; o >>= 1) v = JOIN(v, __shfl_xor_sync(0xffffffffu, v, o)); return v; } \\
template <int W, typename T> __device__ __forceinline__ T block_##NAME(T v) { \\
  v = warp_##NAME(v); if (W == 1) return v; \\
  __shared__ T parts[W]; __syncthreads(); \\
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v; __syncthreads(); \\
  T all = parts[0]; _Pragma("unroll") for (int i = 1; i < W; i++) all = JOIN(all, parts[i]); return all; }
REDUCE(sum, sum2)
REDUCE(product, times2)
REDUCE(max, larger)
REDUCE(min, smaller)
"""
PRELUDE = _DEFINITIONS + SEVERAL + LAUNCHED

_UNARY: Mapping[str, str] = MappingProxyType(
    {
        "Neg": "-({0})",
        "Abs": "({0} < 0 ? -({0}) : {0})",
        "Relu": "({0} < 0 ? ({t})0 : {0})",
        "LeakyRelu": "({0} < 0 ? {0} * {a0} : {0})",
        "Elu": "({0} < 0 ? {a0} * expm1({0}) : {0})",
        "Sigmoid": "(({t})1 / (({t})1 + exp(-({0}))))",
        "HardSigmoid": "smaller(larger({0} * {a0} + {a1}, ({t})0), ({t})1)",
        "HardSwish": "({0} * smaller(larger({0} / ({t})6 + ({t})0.5, ({t})0), ({t})1))",
        "Tanh": "tanh({0})",
        "Softplus": "({0} > 0 ? {0} + log1p(exp(-({0}))) : log1p(exp({0})))",
        "Erf": "erf({0})",
        "Exp": "exp({0})",
        "Log": "log({0})",
        "Sqrt": "sqrt({0})",
        "Reciprocal": "(({t})1 / {0})",
        "Sin": "sin({0})",
        "Cos": "cos({0})",
        "Tan": "tan({0})",
        "Floor": "floor({0})",
        "Ceil": "ceil({0})",
        "Round": "rint({0})",
        "Sign": "({0} > 0 ? ({t})1 : {0} < 0 ? ({t})-1 : {0})",
        "Softsign": "({0} / (({t})1 + ({0} < 0 ? -({0}) : {0})))",
        "Mish": "({0} * tanh({0} > 0 ? {0} + log1p(exp(-({0}))) : log1p(exp({0}))))",
        "Not": "!{0}",
    }
)

_BINARY: Mapping[str, str] = MappingProxyType(
    {
        "Add": "({0} + {1})",
        "Sub": "({0} - {1})",
        "Mul": "({0} * {1})",
        "Div": "({0} / {1})",
        "Pow": "pow({0}, {1})",
        "Min": "smaller({0}, {1})",
        "Max": "larger({0}, {1})",
        "PRelu": "({0} < 0 ? {0} * {1} : {0})",
        "Equal": "({0} == {1})",
        "Less": "({0} < {1})",
        "Greater": "({0} > {1})",
        "LessOrEqual": "({0} <= {1})",
        "GreaterOrEqual": "({0} >= {1})",
        "Xor": "({0} != {1})",
        "And": "({0} && {1})",
        "Or": "({0} || {1})",
        "Where": "({0} ? {1} : {2})",
    }
)

ELEMENTWISE = frozenset(_UNARY) | frozenset(_BINARY) | {"Gelu", "Clip", "Cast", "BatchNormalization", "Mod"}
"""Operators whose element i needs element i of each operand (broadcast) and nothing else."""


def expression(op: str, attrs: tuple[AttrValue, ...], dtype: str, operands: list[str]) -> str:
    """The value of an element-wise operator in C.

    Args:
        dtype: of the operands (of the second one, for ``Where``).
        operands: names of variables, or literals, in the computed type.
    """
    t = COMPUTED[dtype]
    if op == "Clip":
        low, high = attrs
        value = operands[0] if low is None else f"larger<{t}>({operands[0]}, {literal(low, dtype)})"
        return value if high is None else f"smaller<{t}>({value}, {literal(high, dtype)})"
    if op == "Gelu":
        x = operands[0]
        if attrs[0] == "tanh":
            return (
                f"(({t})0.5 * {x} * (({t})1 + tanh(({t}){math.sqrt(2 / math.pi)!r} * "
                f"({x} + ({t})0.044715 * {x} * {x} * {x}))))"
            )
        return f"(({t})0.5 * {x} * (({t})1 + erf({x} * ({t}){math.sqrt(0.5)!r})))"
    if op == "Mod":
        whole = t not in ("float", "double")
        return (
            f"remainder_of<{t}>({operands[0]}, {operands[1]}, {'false' if attrs[0] else 'true'})"
            if whole
            else f"fmod({operands[0]}, {operands[1]})"
        )
    if op == "BatchNormalization":
        x, scale, bias, mean, variance = operands
        return f"(({x} - {mean}) * ({scale} / sqrt({variance} + {literal(attrs[0], dtype)})) + {bias})"
    given = {f"a{i}": literal(a, dtype) for i, a in enumerate(attrs)}
    if op == "Pow" and operands[1] == f"({t})2.0":  # by far the most frequent, and pow is slow
        return f"({operands[0]} * {operands[0]})"
    return (_UNARY.get(op) or _BINARY[op]).format(*operands, t=t, **given)


def literal(value: object, dtype: str) -> str:
    """``value`` as a C literal of the computed type of ``dtype``."""
    t = COMPUTED[dtype]
    if t == "bool":
        return "true" if value else "false"
    assert isinstance(value, int | float)
    if isinstance(value, float) and not math.isfinite(value):
        return f"({t})NAN" if math.isnan(value) else f"({t}){'-' if value < 0 else ''}INF"
    if t in ("float", "double"):
        return f"({t}){float(value)!r}"
    if t == "unsigned long long":
        return f"{int(value)}ull"
    return f"({t})({int(value)}ll)" if int(value) > -(2**63) else f"({t})(-{2**63 - 1}ll - 1)"


def cast(value: str, source: str, target: str) -> str:
    """``value`` converted as ``Cast`` does; rounded to what ``target`` can hold."""
    if target == "bool":
        return f"({value} != 0)"
    if target in ("float16", "bfloat16"):
        return f"up(Down<{STORED[target]}>::of((float){value}))"
    return f"({COMPUTED[target]}){value}"
