<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** The job is not as you expected: its key is held (`holder`), its version is another, it runs, or it has finished. */
final class Conflict extends DuetimeError
{
}
