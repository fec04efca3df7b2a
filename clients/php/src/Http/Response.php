<?php

declare(strict_types=1);

namespace Duetime\Http;

/** An answer, whatever its status. */
final class Response
{
    /**
     * @param array<string, string> $headers by lower-case name
     * @param bool $isRepeat whether the request was sent before, and the answer was lost
     */
    public function __construct(
        public readonly int $status,
        public readonly array $headers,
        public readonly string $body,
        public readonly bool $isRepeat = false,
    ) {
    }
}
