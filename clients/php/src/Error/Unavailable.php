<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** The server cannot be reached, does not answer in time, or cannot do it now. Repeating may help. */
final class Unavailable extends DuetimeError
{
}
