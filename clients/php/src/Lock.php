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
        $until = Clock::now() + Duration::seconds($wait, 'wait');
        $keeper = $extends ? new Keeper($transport) : null;
        $keeper?->launch();
        $fence = null;
        while ($fence === null) {
            $left = max(0.0, $until - Clock::now());
            $part = min($left, self::WAIT_MAX);
            $body = ['owner' => $owner, 'ttl' => $ttl, 'wait' => Duration::text($part), 'keep_place' => $left > $part];
            try {
                $fence = (int) $transport->call('PUT', Transport::path('locks', $name), Json::object($body), timeout: $part + $transport->timeout)->member('fence');
            } catch (LockHeld $error) {
                if ($left <= $part) {
                    throw $error;
                }
            }
        }
        $lock = new self($transport, $name, $fence, $owner, $ttl, $keeper);
        $keeper?->holdLock($owner, Transport::path('locks', $name), Json::object($lock->body()), Duration::seconds($ttl, 'ttl'));
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
        $this->transport->call('PUT', Transport::path('locks', $this->name), Json::object($this->body()));
    }

    /** @throws LockLost if it was lost before */
    public function release(): void
    {
        if ($this->isReleased) {
            return;
        }
        $this->isReleased = true;
        $this->keeper?->drop($this->owner);
        $query = http_build_query(['owner' => $this->owner, 'fence' => $this->fence]);
        $this->transport->call('DELETE', Transport::path('locks', $this->name) . "?$query", done: ['lock_lost']);
    }

    /** @return array<string, mixed> */
    private function body(): array
    {
        return ['owner' => $this->owner, 'ttl' => $this->ttl, 'fence' => $this->fence];
    }
}
