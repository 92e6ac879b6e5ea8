// Drives Go redsync v4 on go-redis v9, as its README says. Options, the library's own: tries, retry_delay_ms,
// drift_factor, timeout_factor, fail_fast; the client's own: dial_timeout_ms, read_timeout_ms, max_retries (-1:
// none). What is not given is as they come. With one_object a mutex serves all leases of a key and an expiry.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis9 "github.com/redis/go-redis/v9"
)

// lease is a lock and the expiry that it was last asked for.
type lease struct {
	*redsync.Mutex
	expiry time.Duration
}

// mutexOf is what a mutex is made for.
type mutexOf struct {
	key    string
	expiry time.Duration
}

type driver struct {
	redsync *redsync.Redsync
	clients []*goredis9.Client
	chosen  options
	made    sync.Map // by mutexOf, with one_object
}

func main() {
	serve(about{
		lib:    "redsync",
		module: "github.com/go-redsync/redsync/v4",
		options: []string{
			"tries", "retry_delay_ms", "drift_factor", "timeout_factor", "fail_fast",
			"dial_timeout_ms", "read_timeout_ms", "max_retries", "one_object",
		},
		caps: func(chosen options) []string {
			if chosen.number("tries") == 1 {
				return []string{"extend", "validity", "held", "single-attempt"}
			}
			return []string{"extend", "validity", "held"}
		},
	}, &driver{})
}

func (d *driver) open(nodes []string, chosen options) error {
	var pools []redis.Pool
	for _, node := range nodes {
		client := goredis9.NewClient(&goredis9.Options{
			Addr:        node,
			DialTimeout: chosen.milliseconds("dial_timeout_ms"),
			ReadTimeout: chosen.milliseconds("read_timeout_ms"),
			MaxRetries:  int(chosen.number("max_retries")),
		})
		d.clients = append(d.clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	d.redsync, d.chosen = redsync.New(pools...), chosen
	return nil
}

func (d *driver) close() {
	for _, client := range d.clients {
		client.Close()
	}
	d.clients = nil
	d.made.Clear()
}

// mutex is a new one for each lease, or with one_object that of its key.
func (d *driver) mutex(key string, ttl time.Duration) *redsync.Mutex {
	made := d.redsync.NewMutex(key, d.settings(ttl)...)
	if d.chosen.flag("one_object") {
		first, _ := d.made.LoadOrStore(mutexOf{key, ttl}, made)
		return first.(*redsync.Mutex)
	}
	return made
}

// acquire: one that ends with an error got no lock.
func (d *driver) acquire(ctx context.Context, key string, ttl time.Duration) (lease, answer, error) {
	lock := d.mutex(key, ttl)
	if err := lock.LockContext(ctx); err != nil {
		return lease{}, nil, said("refused", err)
	}
	return lease{lock, ttl}, answer{"token": lock.Value(), "claimed_ms": left(lock), "fence": nil}, nil
}

// extend lets a lock extend itself. It does so by the expiry that it was made with; another one with its value, which
// WithValue is for, does it by another.
func (d *driver) extend(ctx context.Context, held lease, ttl time.Duration) (lease, answer, error) {
	lock := held.Mutex
	if held.expiry != ttl {
		lock = d.redsync.NewMutex(lock.Name(), append(d.settings(ttl), redsync.WithValue(lock.Value()))...)
	}
	if _, err := lock.ExtendContext(ctx); err != nil {
		return lease{}, nil, refused(err)
	}
	return lease{lock, ttl}, answer{"claimed_ms": left(lock)}, nil
}

func (d *driver) release(ctx context.Context, held lease) error {
	if _, err := held.UnlockContext(ctx); err != nil {
		return refused(err)
	}
	return nil
}

func (d *driver) held(_ context.Context, held lease) (answer, error) {
	return answer{"held": time.Now().Before(held.Until()), "claimed_ms": left(held.Mutex)}, nil
}

// refused says how an extend or a release failed: one that met broken connections may have had an effect.
func refused(err error) failure {
	var broken *redsync.RedisError
	if errors.As(err, &broken) {
		return said("error", err)
	}
	return said("refused", err)
}

func (d *driver) settings(ttl time.Duration) []redsync.Option {
	all := []redsync.Option{redsync.WithExpiry(ttl)}
	for name := range d.chosen {
		switch name {
		case "tries":
			all = append(all, redsync.WithTries(int(d.chosen.number(name))))
		case "retry_delay_ms":
			all = append(all, redsync.WithRetryDelay(d.chosen.milliseconds(name)))
		case "drift_factor":
			all = append(all, redsync.WithDriftFactor(d.chosen.number(name)))
		case "timeout_factor":
			all = append(all, redsync.WithTimeoutFactor(d.chosen.number(name)))
		case "fail_fast":
			all = append(all, redsync.WithFailFast(d.chosen.flag(name)))
		}
	}
	return all
}

// left is how much longer the library says that the lock is good for, in milliseconds.
func left(lock *redsync.Mutex) float64 {
	return float64(time.Until(lock.Until())) / float64(time.Millisecond)
}
