<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** Another owner (`holder`) has the lock. */
final class LockHeld extends DuetimeError
{
}
