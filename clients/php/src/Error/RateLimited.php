<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** The rate of the token is exceeded, or the queue is full (`queue_full`). Repeats wait as the server says. */
final class RateLimited extends DuetimeError
{
}
