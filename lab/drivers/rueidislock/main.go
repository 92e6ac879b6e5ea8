// Drives Go rueidislock on rueidis, as its README says, on the first node. With one server it asks for one key
// (KeyMajority 1, as the README says). A lease is a context that the library cancels when the lock is lost, and it
// extends the lock by itself. Options, the library's own: try (TryWithContext, which does not wait),
// key_majority, extend_interval_ms, try_next_after_ms, no_loop_tracking, fallback_set_px; the client's own:
// disable_cache, dial_timeout_ms, write_timeout_ms. What is not given is as it comes.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// lease is what the library gives: a context that lasts as long as the lock, and what gives the lock back.
type lease struct {
	ctx    context.Context
	cancel context.CancelFunc
}

type driver struct {
	node    string
	chosen  options
	mutex   sync.Mutex // guards lockers
	lockers map[time.Duration]rueidislock.Locker
}

func main() {
	serve(about{
		lib:     "rueidislock",
		module:  "github.com/redis/rueidis",
		nodeKey: "rueidislock:0:{key}",
		options: []string{
			"try", "key_majority", "extend_interval_ms", "try_next_after_ms", "no_loop_tracking",
			"fallback_set_px", "disable_cache", "dial_timeout_ms", "write_timeout_ms",
		},
		caps: func(options) []string { return []string{"held", "renews"} },
	}, &driver{})
}

func (d *driver) open(nodes []string, chosen options) error {
	d.node, d.chosen, d.lockers = nodes[0], chosen, map[time.Duration]rueidislock.Locker{}
	_, err := d.locker(5 * time.Second) // connects
	return err
}

// locker is that of this validity, which is a setting of the whole locker.
func (d *driver) locker(validity time.Duration) (rueidislock.Locker, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if made, known := d.lockers[validity]; known {
		return made, nil
	}
	majority := int32(d.chosen.number("key_majority"))
	if majority == 0 {
		majority = 1
	}
	client := rueidis.ClientOption{InitAddress: []string{d.node}, DisableCache: d.chosen.flag("disable_cache")}
	client.Dialer.Timeout = d.chosen.milliseconds("dial_timeout_ms")
	client.ConnWriteTimeout = d.chosen.milliseconds("write_timeout_ms")
	made, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   client,
		KeyValidity:    validity,
		KeyMajority:    majority,
		ExtendInterval: d.chosen.milliseconds("extend_interval_ms"),
		TryNextAfter:   d.chosen.milliseconds("try_next_after_ms"),
		NoLoopTracking: d.chosen.flag("no_loop_tracking"),
		FallbackSETPX:  d.chosen.flag("fallback_set_px"),
	})
	if err == nil {
		d.lockers[validity] = made
	}
	return made, err
}

func (d *driver) close() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, locker := range d.lockers {
		locker.Close()
	}
	d.lockers = nil
}

// acquire: the context of the lease is not that of the command, which ends when this returns; what cancels the command
// cancels a wait.
func (d *driver) acquire(ctx context.Context, key string, ttl time.Duration) (lease, answer, error) {
	locker, err := d.locker(ttl)
	if err != nil {
		return lease{}, nil, err
	}
	take := locker.WithContext
	if d.chosen.flag("try") {
		take = locker.TryWithContext
	}
	parent, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, end)
	held, cancel, err := take(parent, key)
	if !stop() && err == nil {
		err = context.Canceled
	}
	if err != nil {
		end()
		if errors.Is(err, rueidislock.ErrNotLocked) {
			err = said("refused", err)
		}
		return lease{}, nil, err
	}
	return lease{held, func() { cancel(); end() }}, answer{"token": nil, "claimed_ms": nil, "fence": nil}, nil
}

// extend is never asked for: the library does it by itself.
func (d *driver) extend(_ context.Context, held lease, _ time.Duration) (lease, answer, error) {
	return held, nil, errors.ErrUnsupported
}

func (d *driver) release(_ context.Context, held lease) error {
	held.cancel()
	return nil
}

func (d *driver) held(_ context.Context, held lease) (answer, error) {
	return answer{"held": held.ctx.Err() == nil, "claimed_ms": nil}, nil
}
