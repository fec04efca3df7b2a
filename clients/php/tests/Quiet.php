<?php

declare(strict_types=1);

namespace Duetime\Tests;

if (!interface_exists(\Psr\Log\LoggerInterface::class)) {
    require '/usr/share/php/Psr/Log/autoload.php';
}

/** A logger that keeps its lines. */
final class Quiet extends \Psr\Log\AbstractLogger
{
    /** @var list<string> */
    public array $lines = [];

    public function log($level, $message, array $context = []): void
    {
        $this->lines[] = "$level $message";
    }
}
