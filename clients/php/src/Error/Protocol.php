<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** The answer was cut off or is not the server's. The request may have taken effect. */
final class Protocol extends DuetimeError
{
}
