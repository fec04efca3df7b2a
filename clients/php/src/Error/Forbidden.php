<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** The token lacks the right, or the server does not accept this host. */
final class Forbidden extends DuetimeError
{
}
