<?php

declare(strict_types=1);

namespace Duetime\Error;

use Duetime\DuetimeError;

/** The lease has expired or was settled: another worker has the job, or it is finished. */
final class LeaseLost extends DuetimeError
{
}
