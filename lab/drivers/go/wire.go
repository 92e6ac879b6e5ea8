package main

// The driver protocol (PROTOCOL.md) for drivers in Go. A driver is a type with the methods of library, of which L is
// what the library gives for a lease. Each command runs in a goroutine of its own, with a context that `cancel` ends;
// the end of the input ends the driver, and releases nothing.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// command is any message from the lab; each operation looks at its own fields.
type command struct {
	ID      int64    `json:"id"`
	Op      string   `json:"op"`
	Nodes   []string `json:"nodes"`
	Options options  `json:"options"`
	Key     string   `json:"key"`
	TTL     int64    `json:"ttl_ms"`
	Lease   string   `json:"lease"`
	Command int64    `json:"command"`
}

// ttl is what acquire and extend ask for.
func (c command) ttl() time.Duration {
	return time.Duration(c.TTL) * time.Millisecond
}

type answer map[string]any

// failure is what an operation ends with if not with an answer; kind, name and message as in the protocol.
type failure struct{ kind, name, message string }

func (f failure) Error() string { return f.message }

// said is an error of the library's, told under a kind of the protocol.
func said(kind string, err error) failure {
	return failure{kind, fmt.Sprintf("%T", err), err.Error()}
}

// about is what hello answers of a driver, and which options it takes. One with the option one_object lets one lock
// object of the library serve all leases of a key. nodeKey is under which name the key lies on the nodes, if that is
// another.
type about struct {
	lib     string
	module  string
	nodeKey string
	options []string
	caps    func(options) []string
}

// library is a driver. An error that is no failure is answered as an error: the key may be held. The library gets the
// context of its command.
type library[L any] interface {
	open(nodes []string, chosen options) error
	acquire(ctx context.Context, key string, ttl time.Duration) (L, answer, error)
	// extend returns the lease that takes the place of the one that it was given.
	extend(ctx context.Context, lease L, ttl time.Duration) (L, answer, error)
	release(ctx context.Context, lease L) error
	held(ctx context.Context, lease L) (answer, error)
	// close lets go of what open opened; what is under way ends soon.
	close()
}

type server[L any] struct {
	about   about
	library library[L]
	mutex   sync.Mutex // guards leases and running
	leases  map[string]L
	running map[int64]context.CancelFunc
}

// serve answers commands until the input ends.
func serve[L any](told about, drives library[L]) {
	serves := &server[L]{
		about: told, library: drives, leases: map[string]L{}, running: map[int64]context.CancelFunc{},
	}
	var printing sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var got command
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			fmt.Fprintln(os.Stderr, "no valid command:", err)
			os.Exit(1)
		}
		ctx := serves.begin(got.ID)
		go func() {
			reply, err := serves.run(ctx, got)
			if err != nil {
				reply = refusal(err)
				if ctx.Err() != nil { // whatever the library makes of it, it was cancelled, and may have had an effect
					reply["kind"] = "error"
				}
			}
			serves.cancel(got.ID)
			reply["id"], reply["ok"] = got.ID, err == nil
			line, _ := json.Marshal(reply)
			printing.Lock()
			defer printing.Unlock()
			os.Stdout.Write(append(line, '\n'))
		}()
	}
}

func refusal(err error) answer {
	var known failure
	if !errors.As(err, &known) {
		known = said("error", err)
	}
	return answer{"kind": known.kind, "error": known.name, "message": known.message}
}

// begin returns the context of a command that is about to run.
func (s *server[L]) begin(id int64) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.running[id] = cancel
	return ctx
}

// cancel ends the context of a command; of one that is not under way there is none any more.
func (s *server[L]) cancel(id int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if cancel := s.running[id]; cancel != nil {
		cancel()
		delete(s.running, id)
	}
}

// close cancels what is under way, but for the command that asks for it, and forgets all leases.
func (s *server[L]) close(asking int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for id, cancel := range s.running {
		if id != asking {
			cancel()
		}
	}
	s.leases = map[string]L{}
	s.library.close()
}

func (s *server[L]) run(ctx context.Context, got command) (answer, error) {
	switch got.Op {
	case "hello":
		return s.hello(got.Options)
	case "open":
		return answer{}, s.library.open(got.Nodes, got.Options)
	case "cancel":
		s.cancel(got.Command)
		return answer{}, nil
	case "close":
		s.close(got.ID)
		return answer{}, nil
	case "acquire":
		lease, granted, err := s.library.acquire(ctx, got.Key, got.ttl())
		if err != nil {
			return nil, err
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		granted["lease"] = fmt.Sprintf("h%d", len(s.leases)+1)
		s.leases[granted["lease"].(string)] = lease
		return granted, nil
	case "clock":
		return answer{"wall_ms": float64(time.Now().UnixNano()) / 1e6}, nil
	}
	s.mutex.Lock()
	lease, known := s.leases[got.Lease]
	s.mutex.Unlock()
	switch {
	case !slices.Contains([]string{"extend", "release", "held"}, got.Op):
		return nil, failure{"error", "UnknownOp", "there is no operation " + got.Op}
	case !known:
		return nil, failure{"error", "UnknownLease", "no lease is called " + got.Lease}
	case got.Op == "extend":
		extended, granted, err := s.library.extend(ctx, lease, got.ttl())
		if err != nil {
			return nil, err
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.leases[got.Lease] = extended
		return granted, nil
	case got.Op == "release":
		return answer{}, s.library.release(ctx, lease)
	}
	return s.library.held(ctx, lease)
}

func (s *server[L]) hello(chosen options) (answer, error) {
	for name := range chosen {
		if !slices.Contains(s.about.options, name) {
			return nil, failure{"error", "BadOption", name + " is none of " + strings.Join(s.about.options, ", ")}
		}
	}
	caps := append(s.about.caps(chosen), "clock", "cancel", "tasks")
	if slices.Contains(s.about.options, "one_object") {
		caps = append(caps, "one-object")
	}
	told := answer{"lib": s.about.lib, "version": version(s.about.module), "caps": caps}
	if s.about.nodeKey != "" {
		told["node_key"] = s.about.nodeKey
	}
	return told, nil
}

// version is which version of a module this program was built with.
func version(module string) string {
	if info, known := debug.ReadBuildInfo(); known {
		for _, built := range info.Deps {
			if built.Path == module {
				return strings.TrimPrefix(built.Version, "v")
			}
		}
	}
	return "unknown"
}

// options are those of the scenario, by name.
type options map[string]any

// number is an option's value, 0 where it is not given: the Redis client's word for its default.
func (o options) number(name string) float64 {
	given, _ := o[name].(float64)
	return given
}

// flag is an option's value, false where it is not given.
func (o options) flag(name string) bool {
	given, _ := o[name].(bool)
	return given
}

func (o options) milliseconds(name string) time.Duration {
	return time.Duration(o.number(name) * float64(time.Millisecond))
}
