<?php

declare(strict_types=1);

namespace Duetime;

/** JSON that is sent as it is: as a payload or a result, or `null` for "no result" and the like. */
final class RawJson
{
    public function __construct(public readonly string $text)
    {
    }
}
