<?php

declare(strict_types=1);

namespace Duetime\Laravel;

/**
 * A job class with a key: a queue has at most one live job with it, and `Duetime::cancel($key)` cancels that job.
 *
 * If the key is held, a dispatch keeps the job that holds it and adds none. A method `onKeyConflict(): string` may return `replace`
 * (the new job takes its place) or `reject` (the dispatch throws) instead of `keep`.
 */
interface Keyed
{
    /** 1 to 255 bytes. */
    public function key(): string;
}
