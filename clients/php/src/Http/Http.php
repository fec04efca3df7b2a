<?php

declare(strict_types=1);

namespace Duetime\Http;

use Duetime\Error\{Protocol, Unavailable};

/** Sends one request, once. Everything else (repeats, other servers) is the business of `Transport`. */
interface Http
{
    /**
     * @param list<string> $headers such as `content-type: application/json`
     * @param int $timeoutMs after which `Unavailable` (`timeout`) is thrown
     * @param (\Closure(): bool)|null $isAborted asked about once a second, and after signals; `Aborted` is thrown if it says so
     * @throws Unavailable without an answer
     * @throws Protocol if the answer was cut off
     * @throws Aborted
     */
    public function send(string $method, string $url, array $headers, ?string $body, int $timeoutMs, ?\Closure $isAborted = null): Response;
}
