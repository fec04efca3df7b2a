<?php

declare(strict_types=1);

namespace Duetime;

/** A clock that nobody sets: deadlines hold when the time of the machine is changed. */
final class Clock
{
    /** Seconds since the machine started. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    /** Waits for so many seconds, or until a signal comes. */
    public static function sleep(float $seconds): void
    {
        usleep(max(0, (int) ($seconds * 1e6)));
    }
}
