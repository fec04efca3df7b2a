<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** There is no such job or schedule. */
final class NotFound extends DuetimeError
{
}
