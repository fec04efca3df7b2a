<?php

declare(strict_types=1);

namespace Duetime\Laravel\Tests;

use Duetime\Testing\Server;

/** One server for all tests of a process, and folders for their applications. */
final class Site
{
    private static ?Server $server = null;

    public static function server(): Server
    {
        return self::$server ??= Server::start(arguments: ['--store', 'memory', '--listen', '127.0.0.1:0']);
    }

    /** Stops the server: the next test gets another one, without jobs. */
    public static function renew(): void
    {
        self::$server = null;
    }

    /**
     * The connection of a test, with queues of its own.
     *
     * @return array<string, mixed>
     */
    public static function connection(mixed ...$options): array
    {
        return $options + ['driver' => 'duetime', 'server' => self::server()->address, 'block_for' => 0];
    }

    public static function folder(): string
    {
        $folder = sys_get_temp_dir() . '/duetime-laravel-' . bin2hex(random_bytes(6));
        mkdir($folder);
        register_shutdown_function(static fn () => (new \Illuminate\Filesystem\Filesystem())->deleteDirectory($folder));
        return $folder;
    }
}
