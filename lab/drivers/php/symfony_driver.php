<?php
// Symfony Lock: `(new LockFactory($store))->createLock($name, $ttl)`. The store is RedisStore on the first node
// ("redis" on the command line), or CombinedStore with ConsensusStrategy over one RedisStore for each node
// ("combined"), as its documentation says. Option `blocking`: what acquire() is given, false by default.

declare(strict_types=1);

set_include_path(__DIR__ . '/usr/share/php');
require 'Symfony/Component/Lock/autoload.php';
require 'Predis/autoload.php';
require __DIR__ . '/wire.php';

use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Store\RedisStore;
use Symfony\Component\Lock\Strategy\ConsensusStrategy;

final class Symfony implements Driver
{
    private LockFactory $factory;
    private bool $blocking;

    public function __construct(private bool $combined)
    {
    }

    public function options(): array
    {
        return ['blocking', ...PREDIS_OPTIONS];
    }

    public function hello(array $options): array
    {
        $lib = 'Symfony Lock ' . ($this->combined ? 'CombinedStore' : 'RedisStore');

        return ['lib' => $lib, 'version' => version('php-symfony-lock'), 'caps' => ['extend', 'validity', 'held']];
    }

    public function open(array $nodes, array $options): void
    {
        $clients = predis($this->combined ? $nodes : [$nodes[0]], $options);
        $stores = array_map(fn (Predis\Client $client) => new RedisStore($client), $clients);
        $store = $this->combined ? new CombinedStore($stores, new ConsensusStrategy()) : $stores[0];
        $this->factory = new LockFactory($store);
        $this->blocking = $options['blocking'] ?? false;
    }

    // What lies on the nodes is a sorted set, no token.
    public function acquire(string $key, int $ttlMs): array
    {
        $lock = $this->factory->createLock($key, $ttlMs / 1000);
        if (!$lock->acquire($this->blocking)) {
            throw new Failure('refused', 'acquire', 'acquire() returned false');
        }

        return [$lock, ['token' => null, 'claimed_ms' => left($lock), 'fence' => null]];
    }

    public function extend(object $lock, int $ttlMs): array
    {
        try {
            $lock->refresh($ttlMs / 1000);
        } catch (LockConflictedException $no) {
            throw Failure::of('refused', $no);
        }

        return ['claimed_ms' => left($lock)];
    }

    public function release(object $lock): void
    {
        $lock->release();
    }

    public function held(object $lock): array
    {
        return ['held' => $lock->isAcquired(), 'claimed_ms' => left($lock)];
    }
}

function left(object $lock): ?float
{
    $left = $lock->getRemainingLifetime();

    return $left === null ? null : $left * 1000;
}

serve(new Symfony($argv[1] === 'combined'));
