<?php
// malkusch/lock: `(new PredisMutex($clients, $name, $timeout))->synchronized($code)`, over all nodes. The time-out is
// for how long the code may run, and for how long the lock is waited for; keys last one second longer. Whole seconds
// only. The code that is run here waits, in a fiber, until the lab releases.

declare(strict_types=1);

set_include_path(__DIR__ . '/usr/share/php');
require 'Malkusch/Lock/autoload.php';
require __DIR__ . '/wire.php';

use malkusch\lock\exception\ExecutionOutsideLockException;
use malkusch\lock\exception\TimeoutException;
use malkusch\lock\mutex\PredisMutex;

final class Malkusch implements Driver
{
    private array $clients;

    public function options(): array
    {
        return PREDIS_OPTIONS;
    }

    public function hello(array $options): array
    {
        $about = ['lib' => 'malkusch/lock', 'version' => version('php-malkusch-lock'), 'caps' => []];

        return $about + ['node_key' => 'lock_{key}', 'ttl_step_ms' => 1000];
    }

    public function open(array $nodes, array $options): void
    {
        $this->clients = predis($nodes, $options);
    }

    public function acquire(string $key, int $ttlMs): array
    {
        $mutex = new PredisMutex($this->clients, $key, intdiv($ttlMs, 1000));
        $code = new Fiber(fn () => $mutex->synchronized(fn () => Fiber::suspend()));
        try {
            $code->start();
        } catch (TimeoutException $no) {
            throw Failure::of('refused', $no);
        }

        return [$code, ['token' => null, 'claimed_ms' => null, 'fence' => null]];
    }

    public function extend(object $code, int $ttlMs): array
    {
        throw new Failure('error', 'UnknownOp', 'it has no extension');
    }

    public function release(object $code): void
    {
        try {
            $code->resume();
        } catch (ExecutionOutsideLockException $no) {
            throw Failure::of('refused', $no);
        }
    }

    public function held(object $code): array
    {
        return ['held' => null, 'claimed_ms' => null];
    }
}

serve(new Malkusch());
