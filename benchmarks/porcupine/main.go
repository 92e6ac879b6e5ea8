// Command porcupine asks the Porcupine checker whether a history of a lock with owners is linearizable.
//
// Usage: porcupine [-timeout 60s] HISTORY
//
// HISTORY holds four little-endian int64 per operation: kind (0 acquire, 1 release), process, call and return. A
// return of -1 means that nobody knows the outcome. The answer is one JSON object on standard output.
package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	acquire = 0
	free    = -1
)

type input struct {
	kind    int64
	process int64
	unknown bool
}

// An operation of unknown outcome lasts until the end of time; where it cannot take effect, it has had none.
var mutex = porcupine.Model{
	Init: func() interface{} { return int64(free) },
	Step: func(state, in, _ interface{}) (bool, interface{}) {
		owner, op := state.(int64), in.(input)
		if op.kind == acquire && owner == free {
			return true, op.process
		}
		if op.kind != acquire && owner == op.process {
			return true, int64(free)
		}
		return op.unknown, state
	},
	Equal: func(a, b interface{}) bool { return a.(int64) == b.(int64) },
}

type answer struct {
	Result     string  `json:"result"`
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds"`
	PeakMB     float64 `json:"peak_mb"`
}

func main() {
	timeout := flag.Duration("timeout", time.Minute, "give up after this long (0: never)")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: porcupine [-timeout 60s] HISTORY")
		os.Exit(2)
	}
	history, err := read(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	begin := time.Now()
	result := porcupine.CheckOperationsTimeout(mutex, history, *timeout)
	seconds := time.Since(begin).Seconds()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	found := answer{string(result), len(history), seconds, float64(usage.Maxrss) / 1024}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		os.Exit(2)
	}
}

func read(path string) ([]porcupine.Operation, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(raw)%32 != 0 {
		return nil, fmt.Errorf("%s: %d bytes, expected 32 per operation", path, len(raw))
	}
	history := make([]porcupine.Operation, len(raw)/32)
	for i := range history {
		field := func(j int) int64 { return int64(binary.LittleEndian.Uint64(raw[32*i+8*j:])) }
		end := field(3)
		unknown := end < 0
		if unknown {
			end = math.MaxInt64
		}
		history[i] = porcupine.Operation{
			ClientId: int(field(1)),
			Input:    input{field(0), field(1), unknown},
			Call:     field(2),
			Return:   end,
		}
	}
	return history, nil
}
