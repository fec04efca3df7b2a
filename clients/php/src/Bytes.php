<?php

declare(strict_types=1);

namespace Duetime;

/** A payload or a result of any bytes, which need not be text. It comes back as a string. */
final class Bytes
{
    public function __construct(public readonly string $bytes)
    {
    }
}
