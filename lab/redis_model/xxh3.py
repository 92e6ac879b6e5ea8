"""XXH3 with 64 bits and seed 0: what DIGEST answers of a string, and IFDEQ and IFDNE compare.

Source: the xxHash specification, XXH3.
"""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = 2**64 - 1
_P32_1: Final = 0x9E3779B1
_P32_2: Final = 0x85EBCA77
_P32_3: Final = 0xC2B2AE3D
_P64_1: Final = 0x9E3779B185EBCA87
_P64_2: Final = 0xC2B2AE3D27D4EB4F
_P64_3: Final = 0x165667B19E3779F9
_P64_4: Final = 0x85EBCA77C2B2AE63
_P64_5: Final = 0x27D4EB2F165667C5
_MX_1: Final = 0x165667919E3779F9
_MX_2: Final = 0x9FB21C651E98DF25
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES_PER_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8


def _u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def _u64(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<Q", data, at)[0])


def _folded(left: int, right: int) -> int:
    product = left * right
    return (product ^ product >> 64) & _MASK


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * _MX_1 & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    value = (value ^ value >> 33) * _P64_2 & _MASK
    value = (value ^ value >> 29) * _P64_3 & _MASK
    return value ^ value >> 32


def _mixed_16(data: bytes, at: int, secret_at: int) -> int:
    low, high = _u64(data, at), _u64(data, at + 8)
    return _folded(low ^ _u64(_SECRET, secret_at), high ^ _u64(_SECRET, secret_at + 8))


def xxh3_64(data: bytes) -> int:
    """Return the hash of some bytes."""
    size = len(data)
    if size > 240:
        return _long(data)
    if size > 128:
        return _up_to_240(data)
    if size > 16:
        return _up_to_128(data)
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _folded(low, high)) & _MASK)
    if size >= 4:
        value = (_u32(data, size - 4) + (_u32(data, 0) << 32)) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value ^= (value << 49 | value >> 15) & _MASK ^ (value << 24 | value >> 40) & _MASK
        value = value * _MX_2 & _MASK
        value ^= (value >> 35) + size
        value = value * _MX_2 & _MASK
        return value ^ value >> 28
    if size:
        value = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _avalanche_64(value ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche_64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _up_to_128(data: bytes) -> int:
    size = len(data)
    total = size * _P64_1
    for pair in range((size - 1) // 32 + 1):
        total += _mixed_16(data, 16 * pair, 32 * pair) + _mixed_16(
            data, size - 16 * (pair + 1), 32 * pair + 16
        )
    return _avalanche(total & _MASK)


def _up_to_240(data: bytes) -> int:
    size = len(data)
    total = size * _P64_1
    for part in range(8):
        total += _mixed_16(data, 16 * part, 16 * part)
    total = _avalanche(total & _MASK)
    for part in range(8, size // 16):
        total += _mixed_16(data, 16 * part, 16 * (part - 8) + 3)
    return _avalanche((total + _mixed_16(data, size - 16, 136 - 17)) & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    for lane in range(8):
        value = _u64(data, at + 8 * lane)
        keyed = value ^ _u64(_SECRET, secret_at + 8 * lane)
        lanes[lane ^ 1] += value
        lanes[lane] = lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK


def _long(data: bytes) -> int:
    lanes = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    size, block = len(data), _STRIPE * _STRIPES_PER_BLOCK
    blocks = (size - 1) // block
    for number in range(blocks):
        for stripe in range(_STRIPES_PER_BLOCK):
            _accumulate(lanes, data, number * block + stripe * _STRIPE, 8 * stripe)
        for lane, value in enumerate(lanes):
            scrambled = (
                (value & _MASK) ^ (value & _MASK) >> 47 ^ _u64(_SECRET, len(_SECRET) - _STRIPE + 8 * lane)
            )
            lanes[lane] = scrambled * _P32_1 & _MASK
    for stripe in range((size - 1 - blocks * block) // _STRIPE):
        _accumulate(lanes, data, blocks * block + stripe * _STRIPE, 8 * stripe)
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _P64_1
    for pair in range(4):
        low = lanes[2 * pair] & _MASK ^ _u64(_SECRET, 11 + 16 * pair)
        high = lanes[2 * pair + 1] & _MASK ^ _u64(_SECRET, 11 + 16 * pair + 8)
        total += _folded(low, high)
    return _avalanche(total & _MASK)
