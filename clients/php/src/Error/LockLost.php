<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** You no longer hold the lock. Stop what you do under it. */
final class LockLost extends DuetimeError
{
}
