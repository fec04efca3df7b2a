<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Error\{Conflict, Forbidden, Invalid, LeaseLost, LockHeld, LockLost, NotFound, Protocol, RateLimited, Unauthorized, Unavailable};
use Duetime\Http\Response;

/**
 * What the server refused, or why there was no answer. The class says what a program can do about it; `errorCode` is the
 * server's stable code, or one of this client's: `unreachable`, `timeout`, `protocol`.
 *
 * (PHP reserves `getCode()` for a number: it is the HTTP status, 0 without an answer.)
 */
class DuetimeError extends \RuntimeException
{
    /** Where the code says more than the status. */
    private const CLASSES = [
        'lease_lost' => LeaseLost::class,
        'lock_lost' => LockLost::class,
        'origin_reused' => Conflict::class,
    ];

    /** How often the request was sent. More than once, the first may have taken effect although its answer was lost. */
    public int $tries = 1;
    /** @internal whether there was no connection */
    public bool $isUnsent = false;

    /**
     * @param string $errorCode the server's stable code
     * @param int $status the HTTP status, 0 without an answer
     * @param string $detail for people
     * @param string|null $field the field, header or parameter that is wrong
     * @param string|null $expected what the server accepts there
     * @param string|null $got what it got
     * @param string|null $holder the id of the job that holds the key, or the owner of the lock
     * @param float|null $retryAfter seconds after which the server wants to be asked again
     * @param string|null $requestId names the request in the server's log
     */
    final public function __construct(
        public readonly string $errorCode,
        public readonly int $status,
        public readonly string $detail,
        public readonly ?string $field = null,
        public readonly ?string $expected = null,
        public readonly ?string $got = null,
        public readonly ?string $holder = null,
        public readonly ?float $retryAfter = null,
        public readonly ?string $requestId = null,
    ) {
        parent::__construct("$errorCode: $detail", $status);
    }

    /** Whether the same request may succeed later. Others would be refused again. */
    public function isTransient(): bool
    {
        return $this instanceof RateLimited || $this instanceof Protocol
            || ($this instanceof Unavailable && $this->status !== 507);
    }

    /** Whether the server may have done what it was asked. */
    public function mayHaveHappened(): bool
    {
        return !$this->isUnsent && ($this instanceof Protocol || ($this instanceof Unavailable && \in_array($this->status, [0, 502, 504], true)));
    }

    /**
     * Whether a worker, which can wait, tries again: also until a store has room, or an operator has repaired something.
     *
     * @param bool $wasAccepted whether the server has accepted this worker before. What is wrong from the start is for the developer
     */
    public function mayPass(bool $wasAccepted = true): bool
    {
        return $this->isTransient() || $this->status >= 500
            || ($wasAccepted && ($this instanceof Unauthorized || $this instanceof Forbidden));
    }

    /** The error of an answer that is not a success. */
    public static function of(Response $response): self
    {
        try {
            $problem = Json::decode($response->body);
        } catch (\JsonException) {
            $problem = null;
        }
        if (!\is_array($problem) || !\is_string($problem['code'] ?? null)) {
            return self::foreign($response);
        }
        return self::problem($problem, $response->status, $response->headers['retry-after'] ?? null, $response->headers['request-id'] ?? null);
    }

    /**
     * The error of a problem document, such as an element of the answer to a batch.
     *
     * @param array<mixed> $problem
     */
    public static function problem(array $problem, int $status = 0, ?string $retryAfter = null, ?string $requestId = null): self
    {
        $text = static fn (string $name): ?string => \is_scalar($problem[$name] ?? null) ? (string) $problem[$name] : null;
        $code = $text('code') ?? 'internal';
        $status = $status ?: (int) $text('status');
        $class = self::CLASSES[$code] ?? self::classOf($status);
        $wait = is_numeric($retryAfter) ? max(0.0, (float) $retryAfter) : null;
        return new $class($code, $status, $text('detail') ?? $code, $text('field'), $text('expected'), $text('got'),
            $text('holder') ?? $text('owner'), $wait, $requestId);
    }

    /** An answer that is not the server's: the page of a proxy, or one that was cut off. */
    public static function foreign(Response $response): self
    {
        $code = [401 => 'unauthorized', 403 => 'forbidden', 408 => 'timeout', 413 => 'body_too_large', 429 => 'too_many_requests', 502 => 'unreachable',
            503 => 'unreachable', 504 => 'timeout'][$response->status] ?? 'protocol';
        $class = $code === 'protocol' ? Protocol::class : self::classOf($response->status);
        $wait = $response->headers['retry-after'] ?? null;
        $begin = Json::message(substr($response->body, 0, 200));
        return new $class($code, $response->status, "expected JSON from the server, got status {$response->status}: $begin",
            retryAfter: is_numeric($wait) ? max(0.0, (float) $wait) : null, requestId: $response->headers['request-id'] ?? null);
    }

    /** @return class-string<self> */
    private static function classOf(int $status): string
    {
        return match (true) {
            $status === 401 => Unauthorized::class,
            \in_array($status, [403, 421], true) => Forbidden::class,
            $status === 404 => NotFound::class,
            \in_array($status, [409, 412], true) => Conflict::class,
            $status === 423 => LockHeld::class,
            $status === 429 => RateLimited::class,
            \in_array($status, [408, 502, 503, 504, 507], true) => Unavailable::class,
            $status >= 400 && $status < 500 => Invalid::class,
            default => self::class,
        };
    }
}
