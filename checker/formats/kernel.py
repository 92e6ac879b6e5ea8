"""Plain lines of JSON to columns, byte by byte: loops for numba, which run as they stand without it.

A line is plain if it is an object without blanks, whose fields are known (of one name the last counts), whose
strings hold no escape, and whose numbers are integers of at most 18 digits: as this package writes events.
Whatever else a line is, it is left to the decoder, so that these loops refuse nothing and accept nothing
that the decoder would not.
"""

from __future__ import annotations

from typing import Any, Final

from checker.linearizability.machine import WORD

STRINGS: Final = 7
"""Fields 0 to 6 are strings; the last of them may be an integer as well."""
TYPE, KIND, TIME, INDEX, NUMBERS, FIELDS = 7, 8, 9, 10, 11, 20
"""The other fields: two words, then integers; and how many fields there are."""
REQUIRED: Final = 1 | 1 << TYPE | 1 << KIND | 1 << TIME
"""Process, type, f and time."""
DIGITS_MAX: Final = 18
PLACES: Final = 512
_HASH: Final = 2**60 - 1
_FACTOR: Final = 0x9E3779B97F4A7C5
_QUOTE, _COMMA, _COLON, _OPEN, _CLOSE, _MINUS, _ZERO = 34, 44, 58, 123, 125, 45, 48
_NEWLINE, _BACKSLASH, _SPACE = 10, 92, 32
_EACH: Final = 0x01010101010101
"""One in each byte of a word; so the others: a quote, a backslash, a blank, a zero, the highest bit."""
_QUOTES, _BACKSLASHES, _SPACES = _EACH * _QUOTE, _EACH * _BACKSLASH, _EACH * _SPACE
_ZEROS, _HIGHS, _ABOVE_NINE = _EACH * _ZERO, _EACH * 128, _EACH * (128 - 10)
STATES: Final = 64
"""For so many kinds of lines it is noted which field follows which."""


def word(data: Any, at: int) -> int:
    """The `WORD` bytes at `at`, the first as the lowest; one byte more must be there.

    The compiled loops read it at once (`checker.linearizability.machine`), as they find `lowest`. Since a
    byte of the machine's word is left out, all sums fit into its signed integers: both ways compute alike.
    """
    return int.from_bytes(data[at : at + WORD], "little")


def lowest(bits: int) -> int:
    """In which byte the lowest bit is that is set; there is one."""
    return ((bits & -bits).bit_length() - 1) >> 3


def mixed(h: int, word: int) -> int:
    """The hash of a string of which one more word is known."""
    h = ((h ^ word) * _FACTOR) & _HASH
    return h ^ h >> 31


def equal(data: Any, start: int, end: int, other: Any, at: int) -> bool:
    """Whether the bytes are those that begin at `at` in `other`."""
    length, same = int(end - start), 0
    if end + WORD < len(data) and at + length + WORD < len(other):
        while same + WORD < length:
            if word(data, start + same) != word(other, at + same):
                return False
            same += WORD
        differ = word(data, start + same) ^ word(other, at + same)
        return differ & ((1 << 8 * (length - same)) - 1) == 0
    while same < length and data[start + same] == other[at + same]:
        same += 1
    return same == length


def place(data: Any, start: int, end: int, factor: int) -> int:
    """Where a word that is not empty stands in a table of `PLACES`: no two of the table at one place."""
    middle = data[(start + end) >> 1]
    sum_: int = data[start] * factor + data[end - 1] * (factor >> 3) + middle * 7 + end - start
    return sum_ & (PLACES - 1)


def find(data: Any, start: int, end: int, text: Any, starts: Any, places: Any) -> int:
    """Which word of a table the bytes are, -1 if none; see `scan.words`."""
    if end == start:
        return -1
    found = places[place(data, start, end, places[PLACES])]
    if found < 0 or starts[found + 1] - starts[found] != end - start:
        return -1
    return found if equal(data, start, end, text, starts[found]) else -1


def string_end(data: Any, at: int) -> tuple[int, int]:
    """Where the quote is that ends a string without escapes, and a hash of the string, of 60 bits.

    The place is -1 if there are escapes or control characters, or no end. A byte of a word is found by the
    borrow that it gives when one is taken from it (S. Warren, Hacker's Delight, 6-1): the lowest is exact.
    """
    h, size = 0, len(data)
    while at + WORD < size:
        seven = word(data, at)
        quotes, escapes = seven ^ _QUOTES, seven ^ _BACKSLASHES
        ends = ((quotes - _EACH) & ~quotes) | ((escapes - _EACH) & ~escapes) | ((seven - _SPACES) & ~seven)
        ends &= _HIGHS
        if ends:
            length = lowest(ends)
            h = mixed(h, seven & ((1 << 8 * length) - 1))
            return (at + length if data[at + length] == _QUOTE else -1), h
        h = mixed(h, seven)
        at += WORD
    seven = 0
    for end in range(at, size):
        byte: int = data[end]
        if byte == _QUOTE:
            return end, mixed(h, seven)
        if byte < _SPACE or byte == _BACKSLASH:
            return -1, h
        seven |= byte << 8 * (end - at)
    return -1, h


def power(exponent: int) -> int:
    """Ten to the power of a number from 0 to 7, without a loop."""
    found = 10 if exponent & 1 else 1
    if exponent & 2:
        found *= 100
    if exponent & 4:
        found *= 10000
    return found


def integer(data: Any, at: int) -> tuple[int, int]:
    """Where an integer of at most `DIGITS_MAX` digits ends (-1 if there is none), and the integer.

    The digits of a word become a number in three steps: pairs, fours, eight (D. Lemire, Quickly parsing
    eight digits, 2018).
    """
    size = len(data)
    first = at + 1 if at < size and data[at] == _MINUS else at
    end, value = first, 0
    while end + WORD < size and end - first <= DIGITS_MAX:
        digits = word(data, end) ^ _ZEROS
        others = ((digits + _ABOVE_NINE) | digits) & _HIGHS
        count = lowest(others) if others else WORD
        if count == 0:
            break
        eight = (digits & ((1 << 8 * count) - 1)) << 8 * (WORD + 1 - count)
        eight = (eight * 10 + (eight >> 8)) & 0x00FF00FF00FF00FF
        eight = (eight * 100 + (eight >> 16)) & 0x0000FFFF0000FFFF
        value = value * power(count) + ((eight * 10000 + (eight >> 32)) & 0xFFFFFFFF)
        end += count
        if count < WORD:
            break
    while end < size and end - first <= DIGITS_MAX and _ZERO <= data[end] <= _ZERO + 9:
        value = value * 10 + (data[end] - _ZERO)
        end += 1
    length = end - first
    if length == 0 or length > DIGITS_MAX or (data[first] == _ZERO and (length > 1 or first > at)):
        return -1, 0
    return end, -value if first > at else value


def key(data: Any, at: int, guess: int, text: Any, starts: Any, places: Any) -> tuple[int, int]:
    """The field whose name, a quote and a colon begin at `at`, and where its value does; -1 if it is none.

    The guess is tried first: most lines have their fields in the order of the last line of this kind.
    """
    if guess >= 0:
        end = at + int(starts[guess + 1] - starts[guess])
        if end + 2 < len(data) and data[end] == _QUOTE and equal(data, at, end, text, starts[guess]):
            return (guess, end + 2) if data[end + 1] == _COLON else (-1, at)
    end, _ = string_end(data, at)
    if end < 0 or end + 2 >= len(data) or data[end + 1] != _COLON:
        return -1, at
    return find(data, at, end, text, starts, places), end + 2


def parsed(
    data: Any,
    at: int,
    row: int,
    text: Any,
    starts: Any,
    places: Any,
    spans: Any,
    hashes: Any,
    numbers: Any,
    nexts: Any,
) -> tuple[int, int]:
    """The fields of the line at `at` as a mask, and where the line ends; a mask of -1 if it is not plain.

    Into their row go begin and end of strings and words (`spans`), hashes of strings, and the integers from
    `TIME` on; `nexts` is which field followed which in lines of the same kind (moved by one: the first of a
    line follows -1).
    """
    seen, size, before, state = 0, len(data), -1, 0
    if data[at] != _OPEN:
        return -1, at
    while True:
        at += 1
        if at >= size or data[at] != _QUOTE:
            return -1, at
        field, at = key(data, at + 1, nexts[state, before + 1], text, starts, places)
        if field < 0:
            return -1, at
        nexts[state, before + 1] = before = field
        seen |= 1 << field
        if field < TIME and data[at] == _QUOTE:
            end, h = string_end(data, at + 1)
            keeps_quotes = field == STRINGS - 1
            spans[row, 2 * field] = at if keeps_quotes else at + 1
            spans[row, 2 * field + 1] = end + keeps_quotes
            at = end + 1
            if field < STRINGS:
                hashes[row, field] = h
            else:
                state = (state * 8 + h) & (STATES - 1)
        elif field >= TIME:
            end, value = integer(data, at)
            numbers[row, field - TIME] = value
            at = end
        elif field == STRINGS - 1:
            end, value = integer(data, at)
            spans[row, 2 * field], spans[row, 2 * field + 1] = at, end
            hashes[row, field] = mixed(0, value)
            at = end
        else:
            return -1, at
        if end < 0 or at >= size:
            return -1, max(at, 0)
        if data[at] == _CLOSE:
            break
        if data[at] != _COMMA:
            return -1, at
    whole = at + 1 == size or data[at + 1] == _NEWLINE
    return (seen if whole and seen & REQUIRED == REQUIRED else -1), at + 1


def interned(
    data: Any, start: int, end: int, h: int, column: int, slots: Any, entries: Any, text: Any, used: Any
) -> int:
    """The code of a string within its column, in order of first sight; see `scan.Pool`."""
    h = h * 8 + column
    mask = slots.size - 1
    slot = (h ^ h >> 20) & mask
    while slots[slot] >= 0:
        entry = slots[slot]
        at = entries[entry, 1]
        if (
            entries[entry, 0] == h
            and entries[entry, 2] - at == end - start
            and equal(data, start, end, text, at)
        ):
            return entries[entry, 3] >> 3  # type: ignore[no-any-return]
        slot = (slot + 1) & mask
    entry, at, code = used[STRINGS], used[STRINGS + 1], used[column]
    for i in range(end - start):
        text[at + i] = data[start + i]
    slots[slot] = entry
    entries[entry, 0], entries[entry, 1] = h, at
    entries[entry, 2], entries[entry, 3] = at + end - start, code << 3 | column
    used[STRINGS], used[STRINGS + 1], used[column] = entry + 1, at + end - start, code + 1
    return code  # type: ignore[no-any-return]


def tokenized(data: Any, keys: Any, words: Any, nexts: Any, table: Any, counts: Any) -> None:
    """Note where the strings of the plain lines of clients in a block are, and their numbers.

    `words` are the types, the kinds and the reserved processes, `counts` where the last two begin; then the
    number of rows, of other lines (-1 if there are more lines than the table holds) and of lines, and the
    mask of all fields seen are written there.
    Everything is taken out of its tuple once: each time costs the compiled code two atomic operations.
    """
    event, line_index, types, kinds, fields, spans, hashes, numbers, hard_event, hard_begin, hard_end = table
    key_text, key_starts, key_places = keys
    word_text, word_starts, word_places = words
    first_kind, first_process = counts[0], counts[1]
    rows = hard = lines = at = all_seen = 0
    while at < len(data):
        if data[at] == _NEWLINE:
            at += 1
            continue
        if lines == len(event):
            hard = -1
            break
        seen, end = parsed(data, at, rows, key_text, key_starts, key_places, spans, hashes, numbers, nexts)
        kind = type_ = -1
        if seen >= 0:
            process = find(data, spans[rows, 0], spans[rows, 1], word_text, word_starts, word_places)
            begin, stop = spans[rows, 2 * TYPE], spans[rows, 2 * TYPE + 1]
            type_ = find(data, begin, stop, word_text, word_starts, word_places)
            begin, stop = spans[rows, 2 * KIND], spans[rows, 2 * KIND + 1]
            kind = find(data, begin, stop, word_text, word_starts, word_places) - first_kind
            if process >= first_process or type_ >= first_kind or kind >= first_process - first_kind:
                kind = -1
        if type_ < 0 or kind < 0:
            end = at
            while end < len(data) and data[end] != _NEWLINE:
                end += 1
            hard_event[hard], hard_begin[hard], hard_end[hard] = lines, at, end
            hard += 1
        else:
            event[rows], types[rows], kinds[rows], fields[rows] = lines, type_, kind, seen
            line_index[lines] = numbers[rows, 1] if seen >> INDEX & 1 else -(2**63)
            for number in range(NUMBERS, FIELDS):
                if not seen >> number & 1:
                    numbers[rows, number - TIME] = -(2**63)
            all_seen |= seen
            rows += 1
        lines += 1
        at = end + 1
    counts[2], counts[3], counts[4], counts[5] = rows, hard, lines, all_seen


def coded(data: Any, rows: int, table: Any, pool: Any, codes: Any, clients: Any) -> None:
    """The codes of the strings that `tokenized` found, (columns, rows), and the clients of new processes."""
    fields, spans, strings = table[4], table[5], table[6]
    slots, entries, text, used = pool
    for row in range(rows):
        seen, known = fields[row], used[0]
        for column in range(STRINGS):
            codes[column, row] = -1
            if seen >> column & 1:
                begin, end, h = spans[row, 2 * column], spans[row, 2 * column + 1], strings[row, column]
                codes[column, row] = interned(data, begin, end, h, column, slots, entries, text, used)
        if used[0] > known:
            clients[known] = codes[1, row]


def collected(column: int, pool: Any, out: Any, ends: Any) -> int:
    """Write the strings of a column one after another, and where each ends; returns the number of bytes."""
    _, entries, text, used = pool
    at = count = 0
    for entry in range(used[STRINGS]):
        if entries[entry, 3] & 7 == column:
            for i in range(entries[entry, 1], entries[entry, 2]):
                out[at] = text[i]
                at += 1
            ends[count] = at
            count += 1
    return at
