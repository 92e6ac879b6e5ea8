// Drives Go redislock (bsm) on go-redis v9, as its README says, on the first node. Options, the library's own:
// retry_delay_ms (LinearBackoff; without it an attempt is not repeated), retry_count (LimitRetry); the client's own:
// dial_timeout_ms, read_timeout_ms, max_retries (-1: none). What is not given is as they come.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type driver struct {
	client *redis.Client
	locks  *redislock.Client
	chosen options
}

func main() {
	serve(about{
		lib:     "redislock",
		module:  "github.com/bsm/redislock",
		options: []string{"retry_delay_ms", "retry_count", "dial_timeout_ms", "read_timeout_ms", "max_retries"},
		caps: func(chosen options) []string {
			if chosen.number("retry_delay_ms") == 0 && chosen.number("max_retries") == -1 {
				return []string{"extend", "held", "single-attempt"}
			}
			return []string{"extend", "held"}
		},
	}, &driver{})
}

func (d *driver) open(nodes []string, chosen options) error {
	d.chosen = chosen
	d.client = redis.NewClient(&redis.Options{
		Addr:        nodes[0],
		DialTimeout: chosen.milliseconds("dial_timeout_ms"),
		ReadTimeout: chosen.milliseconds("read_timeout_ms"),
		MaxRetries:  int(chosen.number("max_retries")),
	})
	d.locks = redislock.New(d.client)
	return nil
}

func (d *driver) close() {
	d.client.Close()
}

func (d *driver) acquire(ctx context.Context, key string, ttl time.Duration) (*redislock.Lock, answer, error) {
	lock, err := d.locks.Obtain(ctx, key, ttl, d.settings())
	if err != nil {
		return nil, nil, refused(err)
	}
	return lock, answer{"token": lock.Token(), "claimed_ms": nil, "fence": nil}, nil
}

func (d *driver) extend(ctx context.Context, lock *redislock.Lock, ttl time.Duration) (*redislock.Lock, answer, error) {
	if err := lock.Refresh(ctx, ttl, nil); err != nil {
		return nil, nil, refused(err)
	}
	return lock, answer{"claimed_ms": nil}, nil
}

func (d *driver) release(ctx context.Context, lock *redislock.Lock) error {
	if err := lock.Release(ctx); err != nil {
		return refused(err)
	}
	return nil
}

// held asks the node, through the library, how much longer the lock is good for.
func (d *driver) held(ctx context.Context, lock *redislock.Lock) (answer, error) {
	left, err := lock.TTL(ctx)
	if err != nil {
		return nil, err
	}
	return answer{"held": left > 0, "claimed_ms": float64(left) / float64(time.Millisecond)}, nil
}

func refused(err error) failure {
	switch {
	case errors.Is(err, redislock.ErrNotObtained), errors.Is(err, redislock.ErrLockNotHeld):
		return said("refused", err)
	case errors.Is(err, context.DeadlineExceeded):
		return said("timeout", err)
	}
	return said("error", err)
}

func (d *driver) settings() *redislock.Options {
	strategy := redislock.NoRetry()
	if delay := d.chosen.milliseconds("retry_delay_ms"); delay > 0 {
		strategy = redislock.LinearBackoff(delay)
	}
	if count := d.chosen.number("retry_count"); count > 0 {
		strategy = redislock.LimitRetry(strategy, int(count))
	}
	return &redislock.Options{RetryStrategy: strategy}
}
