<?php

declare(strict_types=1);

namespace Duetime;

/** Thrown by a handler: the job has failed for good and is not retried. */
final class Fatal extends \RuntimeException
{
    /** @param string $message what the dashboard shows */
    public function __construct(string $message, ?\Throwable $previous = null)
    {
        parent::__construct($message, 0, $previous);
    }
}
