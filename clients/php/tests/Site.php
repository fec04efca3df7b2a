<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\Client;
use Duetime\Testing\Server;

/** One server for all tests of a process. Each test has its own queue. */
final class Site
{
    /** Without a clock that can be moved. */
    public const MEMORY = ['--store', 'memory', '--listen', '127.0.0.1:0'];

    private static ?Server $server = null;

    public static function server(): Server
    {
        return self::$server ??= Server::start(arguments: self::MEMORY);
    }

    public static function client(): Client
    {
        return self::server()->client();
    }

    public static function queue(): string
    {
        return 'q' . bin2hex(random_bytes(6));
    }
}
