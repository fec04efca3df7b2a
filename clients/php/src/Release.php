<?php

declare(strict_types=1);

namespace Duetime;

/** Thrown by a handler: gives the job back. The attempt does not count. */
final class Release extends \RuntimeException
{
    /**
     * @param string|int|float|\DateInterval $delay text such as `"30s"`, or seconds; at once by default
     * @param int|null $priority instead of the job's
     */
    public function __construct(public readonly string|int|float|\DateInterval $delay = 0, public readonly ?int $priority = null)
    {
        parent::__construct('released');
    }
}
