<?php

declare(strict_types=1);

namespace Duetime;

/** Thrown by a handler: the attempt has failed, and the next one is after this delay, whatever the retry rule says. */
final class RetryAfter extends \RuntimeException
{
    /** @param string|int|float|\DateInterval $delay text such as `"30s"`, or seconds */
    public function __construct(public readonly string|int|float|\DateInterval $delay, string $message = '', ?\Throwable $previous = null)
    {
        parent::__construct($message, 0, $previous);
    }
}
