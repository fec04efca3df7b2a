<?php

declare(strict_types=1);

namespace Duetime\Http;

/** A wait was ended by the program itself, because it stops. */
final class Aborted extends \RuntimeException
{
}
