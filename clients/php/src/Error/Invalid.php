<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** The request is wrong. Repeating it does not help: see `field`, `expected` and `got`. */
final class Invalid extends DuetimeError
{
    /** What this client refuses before it asks the server. */
    public static function field(string $field, string $expected, string $got): self
    {
        return new self('invalid', 0, "`$field` must be $expected, got $got", $field, $expected, $got);
    }
}
