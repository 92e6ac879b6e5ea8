// Drives Go redsync v4 on go-redis v9, as its README says. Options, the library's own: tries, retry_delay_ms,
// drift_factor, timeout_factor, fail_fast; the client's own: dial_timeout_ms, read_timeout_ms, max_retries (-1:
// none). What is not given is as they come.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis9 "github.com/redis/go-redis/v9"
)

const module = "github.com/go-redsync/redsync/v4"

var optionNames = []string{
	"tries", "retry_delay_ms", "drift_factor", "timeout_factor", "fail_fast",
	"dial_timeout_ms", "read_timeout_ms", "max_retries",
}

// command is any message from the lab; each operation looks at its own fields.
type command struct {
	ID      int64          `json:"id"`
	Op      string         `json:"op"`
	Nodes   []string       `json:"nodes"`
	Options map[string]any `json:"options"`
	Key     string         `json:"key"`
	TTL     int64          `json:"ttl_ms"`
	Lease   string         `json:"lease"`
}

type answer map[string]any

// failure is what an operation ends with if not with an answer.
type failure struct{ kind, name, message string }

func (f failure) Error() string { return f.message }

type driver struct {
	mutex  sync.Mutex // guards leases and expiries
	leases map[string]*redsync.Mutex
	// expiries is what each lease was last asked for.
	expiries map[string]time.Duration
	sync     *redsync.Redsync
	options  map[string]any
}

func main() {
	drives := &driver{leases: map[string]*redsync.Mutex{}, expiries: map[string]time.Duration{}}
	var printing sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var got command
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			fmt.Fprintln(os.Stderr, "no valid command:", err)
			os.Exit(1)
		}
		go func() {
			said, err := drives.run(got)
			if err != nil {
				said = refusal(got.Op, err)
			}
			said["id"], said["ok"] = got.ID, err == nil
			line, _ := json.Marshal(said)
			printing.Lock()
			defer printing.Unlock()
			os.Stdout.Write(append(line, '\n'))
		}()
	}
}

// refusal says how an operation failed. An acquire that ends with an error got no lock; an extend or a release that
// met broken connections may have had an effect.
func refusal(op string, err error) answer {
	var own failure
	if errors.As(err, &own) {
		return answer{"kind": own.kind, "error": own.name, "message": own.message}
	}
	kind := "refused"
	var broken *redsync.RedisError
	if op != "acquire" && errors.As(err, &broken) {
		kind = "error"
	}
	return answer{"kind": kind, "error": fmt.Sprintf("%T", err), "message": err.Error()}
}

func (d *driver) run(got command) (answer, error) {
	switch got.Op {
	case "hello":
		return d.hello(got)
	case "open":
		return d.open(got)
	case "acquire":
		return d.acquire(got)
	case "clock":
		return answer{"wall_ms": float64(time.Now().UnixNano()) / 1e6}, nil
	}
	d.mutex.Lock()
	held, known := d.leases[got.Lease]
	d.mutex.Unlock()
	switch {
	case !slices.Contains([]string{"extend", "release", "held"}, got.Op):
		return nil, failure{"error", "UnknownOp", "there is no operation " + got.Op}
	case !known:
		return nil, failure{"error", "UnknownLease", "no lease is called " + got.Lease}
	case got.Op == "extend":
		return d.extend(got, held)
	case got.Op == "release":
		if _, err := held.Unlock(); err != nil {
			return nil, err
		}
		return answer{}, nil
	}
	return answer{"held": time.Now().Before(held.Until()), "claimed_ms": left(held)}, nil
}

// extend lets a lock extend itself. It does so by the expiry that it was made with; another one with its value, which
// WithValue is for, does it by another.
func (d *driver) extend(got command, held *redsync.Mutex) (answer, error) {
	ttl := time.Duration(got.TTL) * time.Millisecond
	d.mutex.Lock()
	same := d.expiries[got.Lease] == ttl
	d.mutex.Unlock()
	if !same {
		held = d.sync.NewMutex(held.Name(), append(d.settings(ttl), redsync.WithValue(held.Value()))...)
	}
	if _, err := held.Extend(); err != nil {
		return nil, err
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.leases[got.Lease], d.expiries[got.Lease] = held, ttl
	return answer{"claimed_ms": left(held)}, nil
}

func (d *driver) hello(got command) (answer, error) {
	for name := range got.Options {
		if !slices.Contains(optionNames, name) {
			return nil, failure{"error", "BadOption", name + " is none of " + strings.Join(optionNames, ", ")}
		}
	}
	caps := []string{"extend", "validity", "held", "clock"}
	if got.Options["tries"] == 1.0 {
		caps = append(caps, "single-attempt")
	}
	return answer{"lib": "redsync", "version": version(), "caps": caps}, nil
}

func (d *driver) open(got command) (answer, error) {
	var pools []redis.Pool
	for _, node := range got.Nodes {
		pools = append(pools, goredis.NewPool(goredis9.NewClient(&goredis9.Options{
			Addr:        node,
			DialTimeout: milliseconds(got.Options["dial_timeout_ms"]),
			ReadTimeout: milliseconds(got.Options["read_timeout_ms"]),
			MaxRetries:  int(number(got.Options["max_retries"])),
		})))
	}
	d.sync, d.options = redsync.New(pools...), got.Options
	return answer{}, nil
}

func (d *driver) acquire(got command) (answer, error) {
	lock := d.sync.NewMutex(got.Key, d.settings(time.Duration(got.TTL)*time.Millisecond)...)
	if err := lock.Lock(); err != nil {
		return nil, err
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	lease := fmt.Sprintf("h%d", len(d.leases)+1)
	d.leases[lease], d.expiries[lease] = lock, time.Duration(got.TTL)*time.Millisecond
	return answer{"lease": lease, "token": lock.Value(), "claimed_ms": left(lock), "fence": nil}, nil
}

func (d *driver) settings(ttl time.Duration) []redsync.Option {
	chosen := []redsync.Option{redsync.WithExpiry(ttl)}
	for name, value := range d.options {
		switch name {
		case "tries":
			chosen = append(chosen, redsync.WithTries(int(number(value))))
		case "retry_delay_ms":
			chosen = append(chosen, redsync.WithRetryDelay(milliseconds(value)))
		case "drift_factor":
			chosen = append(chosen, redsync.WithDriftFactor(number(value)))
		case "timeout_factor":
			chosen = append(chosen, redsync.WithTimeoutFactor(number(value)))
		case "fail_fast":
			fast, _ := value.(bool)
			chosen = append(chosen, redsync.WithFailFast(fast))
		}
	}
	return chosen
}

// number is an option's value, 0 where it is not given: the client's word for its default.
func number(value any) float64 {
	given, _ := value.(float64)
	return given
}

func milliseconds(value any) time.Duration {
	return time.Duration(number(value) * float64(time.Millisecond))
}

// left is how much longer the library says that the lock is good for, in milliseconds.
func left(lock *redsync.Mutex) float64 {
	return float64(time.Until(lock.Until())) / float64(time.Millisecond)
}

func version() string {
	if info, known := debug.ReadBuildInfo(); known {
		for _, built := range info.Deps {
			if built.Path == module {
				return strings.TrimPrefix(built.Version, "v")
			}
		}
	}
	return "unknown"
}
