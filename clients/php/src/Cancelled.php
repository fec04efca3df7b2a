<?php

declare(strict_types=1);

namespace Duetime;

/** Thrown by `Lease::stopIfCancelled`: the job was cancelled while it ran. A handler that lets it through ends the job as cancelled. */
final class Cancelled extends \RuntimeException
{
}
