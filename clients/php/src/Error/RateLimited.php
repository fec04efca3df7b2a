<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** The rate of the token is exceeded. Repeats wait as the server says. */
final class RateLimited extends DuetimeError
{
}
