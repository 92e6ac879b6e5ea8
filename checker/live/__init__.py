"""Judging a history while it is written, in memory that does not grow with its length.

What is kept: the operations that are under way, the grants that were not released, and per key the last
`window.RELEASED_MAX` released grants with their operations. Whenever an event makes a violation possible
(`suspicion`), the offline check of that property decides on the kept operations alone (`confirm`), so
conditions, names, witnesses and sentences are those of the offline check. Grants that are still held are
taken as released at the moment, so that nothing that comes later can take an accusation back.

| property | findings judged live | left to the offline check |
|---|---|---|
| mutual exclusion | `overlap`, `continuity-loss` | linearizability; grants of unknown outcome |
| lease honesty | `false-validity` that no stall can explain | what a stall, recorded later, may explain |
| fencing | `fence-order`, `fence-breach`, `stale-write`, `unfenced-write` | writes of unknown outcome |
| resource | `lost-update` | cycles; writes of unknown outcome |
| deadlock-freedom, fault tolerance | none | all: what excuses a lock (stalls, receipts) comes later |

A violation that the last event completes is certain once a later stamp is read, as a release may still
carry the same one; until then it is told as `so far` (`Judge.so_far`), and withdrawn if it was not so. Grants
without an id are named after the event of their acquire, and a release without one may be of any grant of its
key.

Several recordings (`checker.history.recordings`) are put in one order first, as far as it is certain
(`several`).

Sound: what is reported here is violated offline as well. What comes later changes nothing before its call: an
extension that is under way counts as one of unknown outcome, which is the most that it may take away.

Exact for these findings where every grant has an id, outcomes are known, TTLs of a grant are equal, times do
not go back from line to line, and nothing that mattered was forgotten. The end of the report says where one
of these did not hold, and what was not judged; neither is told as ok.
"""
