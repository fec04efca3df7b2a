<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Error\{LockHeld, LockLost};

/** A lock that this process holds and, unless told otherwise, extends by itself: see `Client::lock`. */
final class Lock
{
    /** The server lets a request wait for so many seconds. */
    private const WAIT_MAX = 30.0;

    private bool $isReleased = false;

    /** @param int $fence grows with each holder. Store it with what you write, and refuse a write with a smaller one */
    private function __construct(
        private readonly Transport $transport,
        public readonly string $name,
        public readonly int $fence,
        private readonly string $owner,
        private readonly string $ttl,
        private readonly ?Keeper $keeper,
    ) {
    }

    /**
     * @internal
     * @throws LockHeld
     */
    public static function acquire(
        Transport $transport,
        string $name,
        string|int|float|\DateInterval $ttl,
        string|int|float|\DateInterval $wait,
        bool $extends = true,
    ): self {
        $ttl = Duration::text($ttl, 'ttl');
        $owner = gethostname() . '-' . getmypid() . '-' . bin2hex(random_bytes(8));
        $until = microtime(true) + Duration::seconds($wait, 'wait');
        $keeper = $extends ? new Keeper($transport) : null;
        $keeper?->launch();
        for (;;) {
            $left = max(0.0, $until - microtime(true));
            $part = min($left, self::WAIT_MAX);
            $body = ['owner' => $owner, 'ttl' => $ttl, 'wait' => Duration::text($part), 'keep_place' => $left > $part];
            try {
                $fields = $transport->call('PUT', self::path($name), Json::object($body), timeout: $part + $transport->timeout)->fields;
                break;
            } catch (LockHeld $error) {
                if ($left <= $part) {
                    throw $error;
                }
            }
        }
        $lock = new self($transport, $name, (int) $fields['fence'], $owner, $ttl, $keeper);
        $keeper?->holdLock($owner, self::path($name), Json::object($lock->body()), Duration::seconds($ttl, 'ttl'));
        return $lock;
    }

    /** Whether it may be lost, because it could not be renewed in time. Ask before you write; it costs no request. */
    public function isLost(): bool
    {
        return $this->keeper?->event($this->owner) === 'lost';
    }

    /**
     * Renews it now.
     *
     * @throws LockLost
     */
    public function renew(): void
    {
        $this->transport->call('PUT', self::path($this->name), Json::object($this->body()));
    }

    /** @throws LockLost if it was lost before */
    public function release(): void
    {
        if ($this->isReleased) {
            return;
        }
        $this->isReleased = true;
        $this->keeper?->drop($this->owner);
        try {
            $this->transport->call('DELETE', self::path($this->name) . '?' . http_build_query(['owner' => $this->owner, 'fence' => $this->fence]));
        } catch (LockLost $error) {
            // After a lost answer this is the answer to a repeat.
            if ($error->tries === 1) {
                throw $error;
            }
        }
    }

    /** @return array<string, mixed> */
    private function body(): array
    {
        return ['owner' => $this->owner, 'ttl' => $this->ttl, 'fence' => $this->fence];
    }

    private static function path(string $name): string
    {
        return '/v1/locks/' . rawurlencode($name);
    }
}
