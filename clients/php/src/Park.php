<?php

declare(strict_types=1);

namespace Duetime;

/** Thrown by a handler: the job is set aside, failed, until somebody retries or deletes it, whatever its retry rules say. */
final class Park extends \RuntimeException
{
    /**
     * @param string $message what the dashboard shows
     * @param int|null $priority instead of the job's
     */
    public function __construct(string $message = 'parked', public readonly ?int $priority = null, ?\Throwable $previous = null)
    {
        parent::__construct($message, 0, $previous);
    }
}
