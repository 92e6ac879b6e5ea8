"""Plain lines of JSON to columns, byte by byte: loops for numba, which run as they stand without it.

A line is plain if it is an object without blanks, whose fields are known (of one name the last counts), whose
strings hold no escape, and whose numbers are integers of at most 18 digits: as this package writes events.
Whatever else a line is, it is left to the decoder, so that these loops refuse nothing and accept nothing
that the decoder would not.
"""

from __future__ import annotations

from typing import Any, Final

STRINGS: Final = 7
"""Fields 0 to 6 are strings; the last of them may be an integer as well."""
TYPE, KIND, TIME, INDEX, NUMBERS = 7, 8, 9, 10, 11
"""The other fields: two words, then integers."""
REQUIRED: Final = 1 | 1 << TYPE | 1 << KIND | 1 << TIME
"""Process, type, f and time."""
DIGITS_MAX: Final = 18
PLACES: Final = 512
_MASK: Final = 2**47 - 1
_QUOTE, _COMMA, _COLON, _OPEN, _CLOSE, _MINUS, _ZERO = 34, 44, 58, 123, 125, 45, 48
_NEWLINE, _BACKSLASH, _SPACE = 10, 92, 32


def equal(data: Any, start: int, end: int, other: Any, at: int) -> bool:
    """Whether the bytes are those that begin at `at` in `other`."""
    same, length = 0, end - start
    while same < length and data[start + same] == other[at + same]:
        same += 1
    return same == length


def place(data: Any, start: int, end: int, factor: int) -> int:
    """Where a word that is not empty stands in a table of `PLACES`: no two of the table at one place."""
    middle = data[(start + end) // 2]
    mixed: int = data[start] * factor + data[end - 1] * (factor >> 3) + middle * 7 + end - start
    return mixed % PLACES


def find(data: Any, start: int, end: int, text: Any, starts: Any, places: Any) -> int:
    """Which word of a table the bytes are, -1 if none; see `scan.words`."""
    if end == start:
        return -1
    word = places[place(data, start, end, places[PLACES])]
    if word < 0 or starts[word + 1] - starts[word] != end - start:
        return -1
    return word if equal(data, start, end, text, starts[word]) else -1


def string_end(data: Any, at: int) -> tuple[int, int]:
    """Where the quote is that ends a string without escapes, and a hash of the string, of 47 bits.

    The place is -1 if there are escapes or control characters, or no end.
    """
    h, size = 0, len(data)
    for end in range(at, size):
        byte = data[end]
        if byte == _QUOTE:
            return end, h
        if byte < _SPACE or byte == _BACKSLASH:
            return -1, h
        h = (h * 131 + byte) & _MASK
    return -1, h


def integer(data: Any, at: int) -> tuple[int, int]:
    """Where an integer of at most `DIGITS_MAX` digits ends (-1 if there is none), and the integer."""
    size = len(data)
    first = at + 1 if at < size and data[at] == _MINUS else at
    end, value = first, 0
    while end < size and end - first <= DIGITS_MAX and _ZERO <= data[end] <= _ZERO + 9:
        value = value * 10 + (data[end] - _ZERO)
        end += 1
    digits = end - first
    if digits == 0 or digits > DIGITS_MAX or (data[first] == _ZERO and (digits > 1 or first > at)):
        return -1, 0
    return end, -value if first > at else value


def key(data: Any, at: int, guess: int, text: Any, starts: Any, places: Any) -> tuple[int, int]:
    """The field whose name, a quote and a colon begin at `at`, and where its value does; -1 if it is none.

    The guess is tried first: most lines have their fields in the order of the line before.
    """
    if guess >= 0:
        end = at + starts[guess + 1] - starts[guess]
        if end + 2 < len(data) and data[end] == _QUOTE and equal(data, at, end, text, starts[guess]):
            return (guess, end + 2) if data[end + 1] == _COLON else (-1, at)
    end, _ = string_end(data, at)
    if end < 0 or end + 2 >= len(data) or data[end + 1] != _COLON:
        return -1, at
    return find(data, at, end, text, starts, places), end + 2


def parsed(
    data: Any,
    at: int,
    text: Any,
    starts: Any,
    places: Any,
    begins: Any,
    ends: Any,
    hashes: Any,
    numbers: Any,
    nexts: Any,
) -> tuple[int, int]:
    """The fields of the line at `at` as a mask, and where the line ends; a mask of -1 if it is not plain.

    `begins`, `ends` and `hashes` are those of strings and words, `numbers` the integers from `TIME` on;
    `nexts` is which field followed which (moved by one: the first of a line follows -1).
    """
    seen, size, before = 0, len(data), -1
    if data[at] != _OPEN:
        return -1, at
    while True:
        at += 1
        if at >= size or data[at] != _QUOTE:
            return -1, at
        field, at = key(data, at + 1, nexts[before + 1], text, starts, places)
        if field < 0:
            return -1, at
        nexts[before + 1] = before = field
        seen |= 1 << field
        if field < TIME and data[at] == _QUOTE:
            end, h = string_end(data, at + 1)
            keeps_quotes = field == STRINGS - 1
            begins[field] = at if keeps_quotes else at + 1
            ends[field], hashes[field] = end + keeps_quotes, h
            at = end + 1
        elif field >= TIME:
            end, value = integer(data, at)
            numbers[field - TIME] = value
            at = end
        elif field == STRINGS - 1:
            end, value = integer(data, at)
            begins[field], ends[field], hashes[field] = at, end, value & _MASK
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
    data: Any,
    start: int,
    end: int,
    h: int,
    column: int,
    slots: Any,
    hashes: Any,
    starts: Any,
    stops: Any,
    columns: Any,
    codes: Any,
    text: Any,
    used: Any,
) -> int:
    """The code of a string within its column, in order of first sight; see `scan.Pool`."""
    h = h * 8 + column
    mask = slots.size - 1
    slot = (h ^ h >> 20) & mask
    while slots[slot] >= 0:
        entry = slots[slot]
        alike = hashes[entry] == h and stops[entry] - starts[entry] == end - start
        if alike and equal(data, start, end, text, starts[entry]):
            return codes[entry]  # type: ignore[no-any-return]
        slot = (slot + 1) & mask
    entry, at = used[STRINGS], used[STRINGS + 1]
    for i in range(end - start):
        text[at + i] = data[start + i]
    slots[slot] = entry
    hashes[entry], columns[entry], codes[entry] = h, column, used[column]
    starts[entry], stops[entry] = at, at + end - start
    used[STRINGS], used[STRINGS + 1] = entry + 1, at + end - start
    used[column] += 1
    return codes[entry]  # type: ignore[no-any-return]


def tokenized(data: Any, keys: Any, words: Any, scratch: Any, table: Any, counts: Any) -> None:
    """Note where the strings of the plain lines of clients in a block are, and their numbers.

    `words` are the types, the kinds and the reserved processes, `counts` where the last two begin; then the
    number of rows, of other lines and of lines, and the mask of all fields seen are written there.
    Everything is taken out of its tuple once: each time costs the compiled code two atomic operations.
    """
    event, line_index, types, kinds, fields, spans, strings, numbers, hard_event, hard_begin, hard_end = table
    key_text, key_starts, key_places = keys
    word_text, word_starts, word_places = words
    begins, ends, hash_of, values, nexts = scratch
    rows = hard = lines = at = 0
    while at < len(data):
        if data[at] == _NEWLINE:
            at += 1
            continue
        seen, end = parsed(data, at, key_text, key_starts, key_places, begins, ends, hash_of, values, nexts)
        kind = type_ = -1
        if seen >= 0:
            process = find(data, begins[0], ends[0], word_text, word_starts, word_places)
            type_ = find(data, begins[TYPE], ends[TYPE], word_text, word_starts, word_places)
            kind = find(data, begins[KIND], ends[KIND], word_text, word_starts, word_places) - counts[0]
            if process >= counts[1] or type_ >= counts[0] or kind >= counts[1] - counts[0]:
                kind = -1
        if type_ < 0 or kind < 0:
            end = at
            while end < len(data) and data[end] != _NEWLINE:
                end += 1
            hard_event[hard], hard_begin[hard], hard_end[hard] = lines, at, end
            hard += 1
        else:
            event[rows], types[rows], kinds[rows], fields[rows] = lines, type_, kind, seen
            for column in range(STRINGS):
                spans[rows, 2 * column], spans[rows, 2 * column + 1] = begins[column], ends[column]
                strings[rows, column] = hash_of[column]
            line_index[lines] = values[INDEX - TIME] if seen >> INDEX & 1 else -(2**63)
            numbers[0, rows] = values[0]
            for number in range(NUMBERS, TIME + len(values)):
                present = seen >> number & 1
                numbers[number - INDEX, rows] = values[number - TIME] if present else -(2**63)
            counts[5] |= seen
            rows += 1
        lines += 1
        at = end + 1
    counts[2], counts[3], counts[4] = rows, hard, lines


def coded(data: Any, rows: int, table: Any, pool: Any, codes: Any, clients: Any) -> None:
    """The codes of the strings that `tokenized` found, (columns, rows), and the clients of new processes."""
    fields, spans, strings = table[4], table[5], table[6]
    slots, hashes, starts, stops, columns, given, text, used = pool
    for row in range(rows):
        seen, known = fields[row], used[0]
        for column in range(STRINGS):
            codes[column, row] = -1
            if seen >> column & 1:
                begin, end, h = spans[row, 2 * column], spans[row, 2 * column + 1], strings[row, column]
                codes[column, row] = interned(
                    data, begin, end, h, column, slots, hashes, starts, stops, columns, given, text, used
                )
        if used[0] > known:
            clients[known] = codes[1, row]


def collected(column: int, pool: Any, out: Any, ends: Any) -> int:
    """Write the strings of a column one after another, and where each ends; returns the number of bytes."""
    starts, stops, columns, text = pool[2], pool[3], pool[4], pool[6]
    at = count = 0
    for entry in range(pool[7][STRINGS]):
        if columns[entry] == column:
            for i in range(starts[entry], stops[entry]):
                out[at] = text[i]
                at += 1
            ends[count] = at
            count += 1
    return at
