<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** There is no token, or it is unknown, revoked or expired. */
final class Unauthorized extends DuetimeError
{
}
