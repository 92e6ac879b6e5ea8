<?php
// The driver protocol (PROTOCOL.md) for drivers in PHP. A driver is a class with `open`, `acquire`, `extend`,
// `release` and `held`. PHP waits for one thing at a time, so the library runs in a process of its own, one command
// after the other; `hello` and `clock` are answered beside it.

declare(strict_types=1);

final class Failure extends Exception
{
    public function __construct(public string $kind, public string $name, string $message)
    {
        parent::__construct($message);
    }

    /** A library's exception under a kind of the protocol. */
    public static function of(string $kind, Throwable $error): self
    {
        return new self($kind, (new ReflectionClass($error))->getShortName(), $error->getMessage());
    }
}

interface Driver
{
    /** @return array{lib: string, version: string, caps: string[]} what hello answers */
    public function hello(array $options): array;

    /** @return string[] the options that it takes */
    public function options(): array;

    public function open(array $nodes, array $options): void;

    /** @return array{0: object, 1: array} what the library gives for the lease, and token, claimed_ms and fence */
    public function acquire(string $key, int $ttlMs): array;

    public function extend(object $lease, int $ttlMs): array;

    public function release(object $lease): void;

    public function held(object $lease): array;
}

function serve(Driver $driver): void
{
    [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
    stream_set_timeout($theirs, A_YEAR_S); // PHP's own limit, 60 s, would end a client that has nothing to do
    $library = pcntl_fork();
    if ($library === 0) {
        fclose($ours);
        work($driver, $theirs);
    }
    fclose($theirs);
    $ended = false;
    while (!$ended) {
        $readable = [STDIN, $ours];
        $none = null;
        stream_select($readable, $none, $none, null);
        foreach ($readable as $stream) {
            $line = fgets($stream);
            if ($line === false) {
                $ended = true;
            } elseif ($stream === $ours) {
                fwrite(STDOUT, $line);
            } else {
                take($driver, $line, $ours);
            }
        }
    }
    posix_kill($library, SIGKILL); // nothing is released
}

/** Answer a command, or hand it to the library's process. */
function take(Driver $driver, string $line, $library): void
{
    $command = json_decode($line, true, 512, JSON_THROW_ON_ERROR);
    match ($command['op']) {
        'hello' => fwrite(STDOUT, answer($command, fn () => hello($driver, $command['options'] ?? []))),
        'clock' => fwrite(STDOUT, answer($command, fn () => ['wall_ms' => microtime(true) * 1000])),
        default => fwrite($library, $line),
    };
}

function hello(Driver $driver, array $options): array
{
    foreach (array_keys($options) as $name) {
        if (!in_array($name, $driver->options(), true)) {
            throw new Failure('error', 'BadOption', $name . ' is none of ' . implode(', ', $driver->options()));
        }
    }
    $said = $driver->hello($options);

    return ['caps' => [...$said['caps'], 'clock']] + $said;
}

function work(Driver $driver, $lines): never
{
    $leases = [];
    while (($line = fgets($lines)) !== false) {
        $command = json_decode($line, true, 512, JSON_THROW_ON_ERROR);
        fwrite($lines, answer($command, function () use ($driver, $command, &$leases) {
            return run($driver, $command, $leases);
        }));
    }
    posix_kill(getmypid(), SIGKILL); // no destructor releases anything
    exit;
}

function run(Driver $driver, array $command, array &$leases): array
{
    switch ($command['op']) {
        case 'open':
            $driver->open($command['nodes'], $command['options'] ?? []);

            return [];
        case 'acquire':
            [$lease, $said] = $driver->acquire($command['key'], $command['ttl_ms']);
            $name = 'h' . count($leases) + 1;
            $leases[$name] = $lease;

            return ['lease' => $name] + $said;
    }
    if (!in_array($command['op'], ['extend', 'release', 'held'], true)) {
        throw new Failure('error', 'UnknownOp', 'there is no operation ' . $command['op']);
    }
    $lease = $leases[$command['lease']]
        ?? throw new Failure('error', 'UnknownLease', 'no lease is called ' . $command['lease']);
    switch ($command['op']) {
        case 'extend':
            return $driver->extend($lease, $command['ttl_ms']);
        case 'held':
            return $driver->held($lease);
    }
    $driver->release($lease);

    return [];
}

function answer(array $command, callable $what): string
{
    try {
        $said = ['ok' => true] + $what();
    } catch (Failure $failure) {
        $said = ['kind' => $failure->kind, 'error' => $failure->name, 'message' => $failure->getMessage()];
    } catch (Throwable $error) {
        fwrite(STDERR, $error . "\n");
        $failure = Failure::of('error', $error);
        $said = ['kind' => 'error', 'error' => $failure->name, 'message' => $failure->getMessage()];
    }

    return json_encode(['id' => $command['id']] + $said + ['ok' => false], JSON_INVALID_UTF8_SUBSTITUTE) . "\n";
}

/** One client of Predis for each node. Options: `timeout` (to connect) and `read_write_timeout`, in seconds. */
function predis(array $nodes, array $options): array
{
    $named = array_intersect_key($options, array_flip(PREDIS_OPTIONS));

    return array_map(function (string $node) use ($named): Predis\Client {
        $colon = strrpos($node, ':');

        return new Predis\Client(['host' => substr($node, 0, $colon), 'port' => substr($node, $colon + 1)] + $named);
    }, $nodes);
}

const A_YEAR_S = 31_536_000;
const PREDIS_OPTIONS = ['timeout', 'read_write_timeout'];

/** The version of a Debian package, as it was unpacked beside this file. */
function version(string $package): string
{
    $control = file_get_contents(__DIR__ . "/control/$package");

    return preg_match('/^[0-9.]+/', (string) $control, $found) ? $found[0] : 'unknown';
}
